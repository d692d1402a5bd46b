//! Servers and lists of rows that are like those of the paper.
//!
//! *Papers*: authors belong to teams, teams to institutes, which keep to some topics.
//! A team's head has a part in most of its papers, with some of the members and now
//! and then somebody from another team on the topic. A title has words of the topic,
//! of the team's line of work, and words that anybody uses. A list is either what a
//! search for some topics gave (the paper's 671 papers on 7 topics) or papers of one
//! institute (its 6,839 of Microsoft Research). What is known of the server is a
//! sample of it, 4.6 times smaller, as DBLP is in the paper.
//!
//! *DVDs*: films have names, a director, actors of whom a few play everywhere, and a
//! price; both keep to one or two kinds of films. A shop sells some kinds of them.
//! What is known are all films there are, of which the server sells 58 %, as with
//! IMDB in the paper.
//!
//! Whatever is drawn is drawn from a seed, and how it is drawn is [`PaperSettings`] and
//! [`FilmSettings`]; nothing is known to be as in the lost data.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use springtide_policy::query::{Corpus, Estimates, Rows, RowsBuilder, Statistics, Term, TermId};

/// A row of a server: terms by attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerRow {
    /// Terms, each below the attribute's number of terms.
    pub(super) attributes: Vec<Vec<u32>>,
    pub(super) price: f64,
}

/// A server, a list of rows of it that we hold, and a corpus like it.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) server: Vec<ServerRow>,
    pub(super) local: Vec<u32>,
    corpus: Vec<Vec<Vec<u32>>>,
    scale: f64,
    /// How each attribute writes its terms.
    written: Vec<fn(u32) -> String>,
}

/// What is known of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// How much larger it is than the corpus, as in the paper.
    Corpus,
    /// How many rows it has, in all and with each term; for pairs there is the corpus.
    Counts,
}

/// How papers are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct PaperSettings {
    pub(super) n_papers: usize,
    pub(super) n_topics: usize,
    pub(super) n_teams: usize,
    pub(super) team_size: usize,
    /// Topics that an institute keeps to.
    pub(super) n_own: usize,
    /// Lines of work of a team.
    pub(super) n_lines: usize,
    /// The share of the words of a title that are of its line of work.
    pub(super) of_line: f64,
    /// The share of a team's papers that its head has a part in.
    pub(super) head: f64,
    pub(super) n_institutes: usize,
    /// The share of teams at the first institute, whose papers are ours.
    pub(super) share: f64,
    /// The share of authors from the team.
    pub(super) loyalty: f64,
    /// Authors of a paper besides the head and one more, on average.
    pub(super) n_coauthors: f64,
    pub(super) seed: u64,
}

impl PaperSettings {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            n_papers: 60_000,
            n_topics: 150,
            n_teams: 1000,
            team_size: 4,
            n_own: 18,
            n_lines: 5,
            of_line: 0.2,
            head: 0.9,
            n_institutes: 40,
            share: 0.12,
            loyalty: 0.75,
            n_coauthors: 0.8,
            seed,
        }
    }
}

/// Words that anybody uses, words of some topic, and how many a topic has.
const N_GENERAL: usize = 3000;
const N_SPECIAL: usize = 8000;
const N_OF_TOPIC: usize = 60;
const N_OF_LINE: usize = 6;

/// Papers, with the topic of each and whether the first institute had a part in it.
struct Papers {
    server: Vec<ServerRow>,
    topics: Vec<usize>,
    of_institute: Vec<bool>,
}

impl Papers {
    fn new(settings: &PaperSettings, rng: &mut Pcg64) -> Self {
        let general = Zipf::new(N_GENERAL, 1.0);
        let of_topic = Zipf::new(N_OF_TOPIC, 0.8);
        let vocabularies: Vec<Vec<u32>> = (0..settings.n_topics)
            .map(|_| {
                let special = |_| N_GENERAL as u32 + rng.random_range(0..N_SPECIAL as u32);
                (0..N_OF_TOPIC).map(special).collect()
            })
            .collect();
        // An institute keeps to some of the topics, a team to two of these.
        let n_own = settings.n_own;
        let own: Vec<Vec<usize>> = (0..settings.n_institutes)
            .map(|_| {
                let mut topic = |_| rng.random_range(0..settings.n_topics);
                (0..n_own).map(&mut topic).collect()
            })
            .collect();
        let teams: Vec<(usize, [usize; 2])> = (0..settings.n_teams)
            .map(|_| {
                let institute = match rng.random::<f64>() < settings.share {
                    true => 0,
                    false => rng.random_range(1..settings.n_institutes),
                };
                let topics = &own[institute];
                let mut topic = || topics[rng.random_range(0..topics.len())];
                (institute, [topic(), topic()])
            })
            .collect();
        let mut peers: Vec<Vec<usize>> = vec![Vec::new(); settings.n_topics];
        for (team, (_, topics)) in teams.iter().enumerate() {
            peers[topics[0]].push(team);
        }
        // A line of work has words of its own, though others use them elsewhere.
        let lines: Vec<Vec<Vec<u32>>> = (0..settings.n_teams)
            .map(|_| {
                let mut word = |_| N_GENERAL as u32 + rng.random_range(0..N_SPECIAL as u32);
                let mut line = |_| (0..N_OF_LINE).map(&mut word).collect();
                (0..settings.n_lines).map(&mut line).collect()
            })
            .collect();
        // Some teams publish more than others, and so do some members of each.
        let busy = Zipf::new(settings.n_teams, 0.3);
        let member = Zipf::new(settings.team_size, 0.6);
        let mut papers = Self {
            server: Vec::with_capacity(settings.n_papers),
            topics: Vec::new(),
            of_institute: Vec::new(),
        };
        for _ in 0..settings.n_papers {
            let team = busy.draw(rng);
            let (_, topics) = teams[team];
            let topic = topics[usize::from(rng.random::<f64>() < 0.3)];
            let mut authors = Vec::new();
            if rng.random::<f64>() < settings.head {
                authors.push((team, 0));
            }
            let most = 2.0 * settings.n_coauthors + 1.0;
            for _ in 0..1 + (rng.random::<f64>() * most) as usize {
                let of = match rng.random::<f64>() < settings.loyalty || peers[topic].is_empty() {
                    true => team,
                    false => peers[topic][rng.random_range(0..peers[topic].len())],
                };
                authors.push((of, member.draw(rng)));
            }
            let is_ours = authors.iter().any(|&(team, _)| teams[team].0 == 0);
            papers.of_institute.push(is_ours);
            let author = |&(team, member)| (team * settings.team_size + member) as u32;
            let mut people: Vec<u32> = authors.iter().map(author).collect();
            let line = &lines[team][rng.random_range(0..settings.n_lines)];
            let mut title: Vec<u32> = (0..rng.random_range(5..10))
                .map(|_| match rng.random::<f64>() {
                    part if part < settings.of_line => line[rng.random_range(0..line.len())],
                    part if part < 0.65 => vocabularies[topic][of_topic.draw(rng)],
                    _ => general.draw(rng) as u32,
                })
                .collect();
            for terms in [&mut people, &mut title] {
                terms.sort_unstable();
                terms.dedup();
            }
            papers.topics.push(topic);
            papers.server.push(ServerRow {
                attributes: vec![title, people],
                price: 0.0,
            });
        }
        papers
    }

    fn scenario(self, mut local: Vec<u32>, rng: &mut Pcg64) -> Scenario {
        const SCALE: f64 = 4.6;
        local.sort_unstable();
        let sample = self
            .server
            .iter()
            .filter(|_| rng.random::<f64>() * SCALE < 1.0);
        Scenario {
            corpus: sample.map(|row| row.attributes.clone()).collect(),
            server: self.server,
            local,
            scale: SCALE,
            written: vec![word, person],
        }
    }
}

/// Which papers we hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// So many on seven topics.
    Topics(usize),
    /// So many of the first institute.
    Institute(usize),
}

/// A server of papers and a list of some.
pub(super) fn papers(settings: &PaperSettings, list: List) -> Scenario {
    let mut rng = Pcg64::seed_from_u64(settings.seed ^ 0x7061_7065_7273);
    let papers = Papers::new(settings, &mut rng);
    let all = 0..papers.server.len();
    let mut local: Vec<u32> = Vec::new();
    match list {
        List::Topics(n) => {
            let mut topics: Vec<usize> = (0..settings.n_topics).collect();
            topics.shuffle(&mut rng);
            for (place, &topic) in topics.iter().take(7).enumerate() {
                let mut of_topic: Vec<u32> = all
                    .clone()
                    .filter(|&paper| papers.topics[paper] == topic)
                    .map(|paper| paper as u32)
                    .collect();
                of_topic.shuffle(&mut rng);
                let wanted = n * (place + 1) / 7 - n * place / 7;
                local.extend(of_topic.into_iter().take(wanted));
            }
        }
        List::Institute(n) => {
            local.extend(
                all.filter(|&paper| papers.of_institute[paper])
                    .map(|paper| paper as u32),
            );
            local.shuffle(&mut rng);
            local.truncate(n);
        }
    }
    papers.scenario(local, &mut rng)
}

/// How films are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilmSettings {
    pub(super) n_films: usize,
    pub(super) n_local: usize,
    pub(super) seed: u64,
}

impl FilmSettings {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            n_films: 34_500,
            n_local: 1000,
            seed,
        }
    }
}

/// A server of DVDs and what a shop sells of them.
pub(super) fn films(settings: &FilmSettings) -> Scenario {
    const N_KINDS: usize = 40;
    const N_KINDS_SOLD: usize = 6;
    const N_WORDS: usize = 6000;
    const SCALE: f64 = 0.58;
    let mut rng = Pcg64::seed_from_u64(settings.seed ^ 0x6669_6c6d);
    let n_directors = settings.n_films / 8;
    let n_actors = settings.n_films / 2;
    let (words, fame) = (Zipf::new(N_WORDS, 0.9), Zipf::new(n_actors / N_KINDS, 0.7));
    let work = Zipf::new(n_directors / N_KINDS, 0.5);
    let mut kinds = Vec::new();
    let films: Vec<ServerRow> = (0..settings.n_films)
        .map(|_| {
            let kind = rng.random_range(0..N_KINDS);
            kinds.push(kind);
            let director = (work.draw(&mut rng) * N_KINDS + kind) as u32;
            let mut actors: Vec<u32> = (0..rng.random_range(3..6))
                .map(|_| {
                    // One in five comes from another kind of film.
                    let kind = match rng.random::<f64>() < 0.2 {
                        true => rng.random_range(0..N_KINDS),
                        false => kind,
                    };
                    (fame.draw(&mut rng) * N_KINDS + kind) as u32
                })
                .collect();
            let mut name: Vec<u32> = (0..rng.random_range(2..5))
                .map(|_| words.draw(&mut rng) as u32)
                .collect();
            for terms in [&mut actors, &mut name] {
                terms.sort_unstable();
                terms.dedup();
            }
            // Prices end in 99.
            let price = f64::from(rng.random_range(4_u32..40)) + 0.99;
            ServerRow {
                attributes: vec![name, vec![director], actors],
                price,
            }
        })
        .collect();
    let mut server = Vec::new();
    let mut sold = Vec::new();
    for (film, kind) in films.iter().zip(kinds) {
        if rng.random::<f64>() < SCALE {
            if kind < N_KINDS_SOLD {
                sold.push(server.len() as u32);
            }
            server.push(film.clone());
        }
    }
    sold.shuffle(&mut rng);
    sold.truncate(settings.n_local);
    sold.sort_unstable();
    Scenario {
        corpus: films.into_iter().map(|film| film.attributes).collect(),
        server,
        local: sold,
        scale: SCALE,
        written: vec![word, director, person],
    }
}

impl Scenario {
    /// Our rows with the terms of some attributes, and what is known of the server.
    pub(super) fn known(&self, attributes: &[usize], known: Known) -> (Rows, Estimates) {
        let mut builder = RowsBuilder::new();
        for &row in &self.local {
            let row = &self.server[row as usize];
            let terms = attributes.iter().flat_map(|&attribute| {
                let write = self.written[attribute];
                row.attributes[attribute].iter().map(move |&term| Term {
                    key: write(term),
                    written: write(term),
                })
            });
            builder.add(terms, 1.0).expect("a worth of one");
        }
        let rows = builder.build();
        let ids = self.ids(&rows, attributes);
        let corpus = self.corpus.iter().map(|row| ids.of(row));
        let mut statistics = Statistics::new(&rows);
        let scale = match known {
            Known::Corpus => Some(self.scale),
            Known::Counts => {
                let mut counts = vec![0_u32; rows.n_terms()];
                for row in &self.server {
                    for term in ids.of(&row.attributes) {
                        counts[term.0 as usize] += 1;
                    }
                }
                for (term, &count) in (0..).zip(&counts) {
                    let counted = statistics.count_term(TermId(term), f64::from(count));
                    counted.expect("a count");
                }
                let n_rows = statistics.set_server_rows(self.server.len() as f64);
                n_rows.expect("a count");
                None
            }
        };
        statistics
            .set_corpus(Corpus::new(&rows, corpus), scale)
            .expect("a scale above zero");
        let estimates = statistics.estimates(&rows);
        (rows, estimates)
    }

    /// The terms of our rows, by attribute and number.
    fn ids<'a>(&self, rows: &Rows, attributes: &'a [usize]) -> Ids<'a> {
        let known = attributes.iter().map(|&attribute| {
            let terms = self.server.iter().map(|row| &row.attributes[attribute]);
            let all = terms.chain(self.corpus.iter().map(|row| &row[attribute]));
            let n = all.flatten().max().map_or(0, |most| most + 1);
            // Writing all terms down takes longer than all the rest, so only those
            // that we hold are.
            let mut ids = vec![None; n as usize];
            for &row in &self.local {
                for &term in &self.server[row as usize].attributes[attribute] {
                    let id = &mut ids[term as usize];
                    if id.is_none() {
                        *id = rows.term(&self.written[attribute](term));
                    }
                }
            }
            ids
        });
        Ids {
            attributes,
            known: known.collect(),
        }
    }

    /// The rows of the server by the terms of ours, to answer queries with.
    pub(super) fn index(&self, rows: &Rows, attributes: &[usize]) -> Index {
        let ids = self.ids(rows, attributes);
        let mut by_term = vec![Vec::new(); rows.n_terms()];
        for (number, row) in (0..).zip(&self.server) {
            for term in ids.of(&row.attributes) {
                by_term[term.0 as usize].push(number);
            }
        }
        Index { by_term }
    }
}

struct Ids<'a> {
    attributes: &'a [usize],
    known: Vec<Vec<Option<TermId>>>,
}

impl Ids<'_> {
    /// The terms of a row that we hold too.
    fn of(&self, row: &[Vec<u32>]) -> Vec<TermId> {
        let each = self.attributes.iter().zip(&self.known);
        each.flat_map(|(&attribute, known)| {
            row[attribute]
                .iter()
                .filter_map(|&term| known[term as usize])
        })
        .collect()
    }
}

/// The server's own index.
pub(super) struct Index {
    by_term: Vec<Vec<u32>>,
}

impl Index {
    /// How many rows have all these terms.
    pub(super) fn n_results(&self, terms: impl Iterator<Item = TermId>) -> usize {
        self.results(terms).len()
    }

    /// The rows that have all these terms.
    pub(super) fn results(&self, terms: impl Iterator<Item = TermId>) -> Vec<u32> {
        let mut lists: Vec<&Vec<u32>> = terms.map(|term| &self.by_term[term.0 as usize]).collect();
        lists.sort_by_key(|list| list.len());
        let Some((first, rest)) = lists.split_first() else {
            return Vec::new();
        };
        let has_all = |row: &&u32| rest.iter().all(|list| list.binary_search(row).is_ok());
        first.iter().filter(has_all).copied().collect()
    }
}

/// Numbers from zero, of which the first are drawn most often: in proportion to
/// 1/(n + 2)^s.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(n: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let each = (0..n.max(1)).map(|place| {
            sum += ((place + 2) as f64).powf(-exponent);
            sum
        });
        Self {
            sums: each.collect(),
        }
    }

    fn draw(&self, rng: &mut impl Rng) -> usize {
        let all = self.sums[self.sums.len() - 1];
        let drawn = rng.random::<f64>() * all;
        let place = self.sums.partition_point(|&sum| sum <= drawn);
        place.min(self.sums.len() - 1)
    }
}

/// A word of three or four syllables.
fn word(number: u32) -> String {
    spelled(number, 3)
}

/// A name in two words.
fn person(number: u32) -> String {
    format!("{} {}", spelled(number % 97, 2), spelled(number / 97, 3))
}

/// The same for people who would otherwise be called like others.
fn director(number: u32) -> String {
    format!(
        "{} van {}",
        spelled(number % 89, 2),
        spelled(number / 89, 3)
    )
}

fn spelled(mut number: u32, n_syllables: u32) -> String {
    const FIRST: &[u8] = b"bdfghjklmnprstv";
    const SECOND: &[u8] = b"aeiou";
    let mut text = String::new();
    let mut n = 0;
    while n < n_syllables || number > 0 {
        let (one, other) = (number % 15, number / 15 % 5);
        text.push(char::from(FIRST[one as usize]));
        text.push(char::from(SECOND[other as usize]));
        number /= 75;
        n += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_as_large_as_the_papers() {
        let small = papers(&PaperSettings::new(1), List::Topics(671));
        assert_eq!((small.server.len(), small.local.len()), (60_000, 671));
        let large = papers(&PaperSettings::new(1), List::Institute(6839));
        assert_eq!(large.local.len(), 6839);
        let share = large.corpus.len() as f64 * 4.6 / 60_000.0;
        assert!((share - 1.0).abs() < 0.05, "{share}");
        let shop = films(&FilmSettings::new(1));
        assert_eq!(shop.local.len(), 1000);
        assert!(shop.server.len() > 19_000);
        assert!(shop.server.iter().all(|film| film.price > 0.0));
    }

    #[test]
    fn words_have_a_spelling_of_their_own() {
        let mut words: Vec<String> = (0..20_000).map(word).collect();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), 20_000);
        assert_eq!(word(0), "bababa");
    }

    #[test]
    fn an_index_counts_rows_with_all_terms() {
        let shop = films(&FilmSettings::new(1));
        let (rows, _) = shop.known(&[2], Known::Corpus);
        let index = shop.index(&rows, &[2]);
        let film = &shop.server[shop.local[0] as usize];
        let ids: Vec<TermId> = film.attributes[2]
            .iter()
            .map(|&actor| rows.term(&person(actor)).unwrap())
            .collect();
        let all = index.n_results(ids.iter().copied());
        let by_hand = shop.server.iter().filter(|row| {
            let actors = &film.attributes[2];
            actors.iter().all(|actor| row.attributes[2].contains(actor))
        });
        assert_eq!(all, by_hand.count());
        assert!(all >= 1);
    }
}
