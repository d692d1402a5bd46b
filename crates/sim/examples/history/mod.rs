//! A recorded history as a world: three plain CSV tables, described in
//! docs/reference/files.md. Cells with quotes are not understood, and directories are
//! not groups.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use springtide_policy::{Element, Elements, Groups};
use springtide_sim::world::{Life, World};

pub(crate) fn read(folder: &Path) -> Result<World, Box<dyn Error>> {
    let mut groups = Groups::new();
    let mut sites = BTreeMap::new();
    for [site] in table(folder, "sites", ["site_id"])? {
        sites.insert(site, groups.add(None));
    }
    let mut changes: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for [page, hour] in table(folder, "changes", ["page_id", "hour"])? {
        changes.entry(page).or_default().push(days(&hour)?);
    }
    let mut elements = Elements::new();
    let mut lives = Vec::new();
    let (mut starts, mut times) = (vec![0], Vec::new());
    let columns = ["page_id", "site_id", "created_h", "deleted_h"];
    for [page, site, created, deleted] in table(folder, "pages", columns)? {
        let group = sites.get(&site).ok_or("a page of no site")?;
        let element = Element {
            group: Some(*group),
            ..Element::default()
        };
        elements.set(springtide_policy::ElementId(lives.len() as u32), element);
        lives.push(Life {
            born: days(&created)?.max(0.0),
            died: match deleted.as_str() {
                "" => f64::INFINITY,
                hour => days(hour)?,
            },
        });
        times.extend(changes.remove(&page).unwrap_or_default());
        starts.push(times.len());
    }
    let moments = lives.iter().flat_map(|life| [life.born, life.died]);
    let moments = moments.chain(times.iter().copied());
    let last = moments.filter(|day| day.is_finite()).fold(1.0, f64::max);
    Ok(World::recorded(
        elements,
        groups,
        lives,
        (starts, times),
        last.ceil(),
    ))
}

fn days(hours: &str) -> Result<f64, std::num::ParseFloatError> {
    Ok(hours.parse::<f64>()? / 24.0)
}

/// The rows of a table, of these columns.
fn table<const N: usize>(
    folder: &Path,
    name: &str,
    columns: [&str; N],
) -> Result<Vec<[String; N]>, Box<dyn Error>> {
    let path = folder.join(name).with_extension("csv");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let place = |column: &str| header.iter().position(|&other| other == column);
    let places = columns.map(place);
    if places.contains(&None) {
        return Err(format!("{}: its columns are not {columns:?}", path.display()).into());
    }
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |place: Option<usize>| cells.get(place?).map(|cell| (*cell).to_owned());
        places.map(|place| cell(place).unwrap_or_default())
    };
    Ok(lines.map(row).collect())
}
