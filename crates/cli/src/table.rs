//! Rows of text under a header, for people.

/// Returns a table: columns as wide as their widest cell, two blanks between them, none at the end of a line.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = header.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths);
        let padded: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let rows = rows
        .iter()
        .map(|row| line(std::array::from_fn(|at| row[at].as_str())));
    std::iter::once(line(header)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            ["a".to_owned(), "1".to_owned()],
            ["für".to_owned(), "20".to_owned()],
        ];
        assert_eq!(table(["NAME", "N"], &rows), "NAME  N\na     1\nfür   20\n");
    }
}
