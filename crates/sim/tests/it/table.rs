//! Tables: what blocks, digests and a cursor buy.

use springtide_policy::Budget;
use springtide_policy::schedule::Terms;
use springtide_sim::table::{By, TableMeasures, TableSetup, TableWorld};

#[test]
fn explore() {
    for per_day in [50.0, 100.0, 200.0] {
        for rate in [0.0, 0.0002, 0.001] {
            let world = TableWorld {
                rate_per_day: rate,
                ..TableWorld::default()
            };
            println!("budget {per_day} rate {rate}");
            let h = world.history(1).unwrap();
            let bys = [
                By::Uniform,
                By::Learned {
                    digests: false,
                    cursor: false,
                },
                By::Learned {
                    digests: true,
                    cursor: false,
                },
                By::Learned {
                    digests: false,
                    cursor: true,
                },
                By::Learned {
                    digests: true,
                    cursor: true,
                },
                By::FullCopy,
                By::CursorOnly,
            ];
            let setups: Vec<_> = bys
                .iter()
                .map(|&by| TableSetup {
                    by,
                    terms: Terms::new(Budget::per_day(per_day).unwrap()),
                    warmup: 20.0,
                    seed: 1,
                })
                .collect();
            let m = h.compare(&setups);
            let u = 1.0 - m[0].of_rows.freshness;
            for (by, m) in bys.iter().zip(m) {
                println!(
                    "{by:?}: stale {:.5} = {:.1} %, gone {:.5}, polls {}, cursor {}, digests {} blocks {} cr {:.3} fair {:.3}",
                    1.0 - m.of_rows.freshness,
                    100.0 * (1.0 - m.of_rows.freshness) / u,
                    m.gone,
                    m.of_rows.n_polls,
                    m.n_cursor,
                    m.n_digests,
                    m.n_blocks,
                    m.of_rows.change_ratio,
                    m.of_rows.fairness
                );
            }
        }
    }
}
