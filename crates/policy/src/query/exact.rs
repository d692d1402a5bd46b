//! The covering integer program, solved exactly where it is small.

/// The cheapest queries that cover all rows (content paper, section 3.3):
///
/// ```text
/// minimise Σ c(q)·x(q)   with   Σ x(q) ≥ 1 over the queries that find r, for every r
/// ```
///
/// Each query is the rows that it finds (numbered from zero) and what it costs; the
/// paper's cost is |R_S(q)|. The result is sorted; `None` if some row is found by no
/// query. Branch and bound, whose time grows exponentially: for tens of rows, to
/// compare with.
pub fn cheapest_cover(n_rows: usize, queries: &[(&[u32], f64)]) -> Option<(Vec<usize>, f64)> {
    let mut finders: Vec<Vec<usize>> = vec![Vec::new(); n_rows];
    for (query, (rows, _)) in queries.iter().enumerate() {
        for &row in *rows {
            finders[row as usize].push(query);
        }
    }
    if finders.iter().any(Vec::is_empty) {
        return None;
    }
    let mut search = Search {
        queries,
        finders,
        n_covered: vec![0; n_rows],
        chosen: Vec::new(),
        cost: 0.0,
        best: None,
    };
    search.branch();
    search.best.map(|(mut chosen, cost)| {
        chosen.sort_unstable();
        (chosen, cost)
    })
}

struct Search<'a> {
    queries: &'a [(&'a [u32], f64)],
    /// The queries that find each row.
    finders: Vec<Vec<usize>>,
    /// How many chosen queries find each row.
    n_covered: Vec<u32>,
    chosen: Vec<usize>,
    cost: f64,
    best: Option<(Vec<usize>, f64)>,
}

impl Search<'_> {
    fn branch(&mut self) {
        let bound = self.cost + self.least();
        if let Some((_, best)) = &self.best
            && bound >= *best
        {
            return;
        }
        let open = (0..self.n_covered.len()).filter(|&row| self.n_covered[row] == 0);
        let Some(row) = open.min_by_key(|&row| self.finders[row].len()) else {
            self.best = Some((self.chosen.clone(), self.cost));
            return;
        };
        let mut finders = self.finders[row].clone();
        finders.sort_by(|&one, &other| self.share(one).total_cmp(&self.share(other)));
        for query in finders {
            let (rows, cost) = self.queries[query];
            for &row in rows {
                self.n_covered[row as usize] += 1;
            }
            self.chosen.push(query);
            let before = self.cost;
            self.cost += cost;
            self.branch();
            self.cost = before;
            self.chosen.pop();
            for &row in rows {
                self.n_covered[row as usize] -= 1;
            }
        }
    }

    /// What a query costs for each row that it would newly cover.
    fn share(&self, query: usize) -> f64 {
        let (rows, cost) = self.queries[query];
        let open = rows
            .iter()
            .filter(|&&row| self.n_covered[row as usize] == 0);
        cost / open.count() as f64
    }

    /// What covering the rest takes at least: each row the least share of a query.
    fn least(&self) -> f64 {
        let shares: Vec<f64> = (0..self.queries.len()).map(|q| self.share(q)).collect();
        let open = (0..self.n_covered.len()).filter(|&row| self.n_covered[row] == 0);
        open.map(|row| {
            let shares = self.finders[row].iter().map(|&query| shares[query]);
            shares.fold(f64::INFINITY, f64::min)
        })
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_cover_is_found() {
        // Greedy by cost per new row takes the long one first, and then both others.
        let queries: [(&[u32], f64); 3] = [(&[0, 1], 2.0), (&[2, 3], 2.0), (&[1, 2, 4], 2.1)];
        assert_eq!(cheapest_cover(4, &queries[..2]), Some((vec![0, 1], 4.0)));
        assert_eq!(cheapest_cover(5, &queries[..2]), None);
        let found = cheapest_cover(5, &queries).unwrap();
        assert_eq!(found.0, [0, 1, 2]);
        assert_eq!(cheapest_cover(0, &[]), Some((Vec::new(), 0.0)));
    }
}
