//! Looks for a text in every column of every table, as the database's own catalog lists them.

use std::collections::BTreeSet;
use std::path::Path;

use tokio_postgres::NoTls;

/// Columns of a SQLite file in which the text is.
pub(crate) fn in_sqlite(file: &Path, text: &str) -> BTreeSet<String> {
    let database = rusqlite::Connection::open(file).expect("the file opens");
    let columns = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c
                   WHERE t.type = 'table'";
    let mut statement = database.prepare(columns).expect("the catalog is read");
    let names = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("the catalog is read");
    let names: Vec<(String, String)> = names.map(|row| row.expect("two names")).collect();
    assert!(names.len() > 100, "only {} columns", names.len());
    let holds = |(table, column): &(String, String)| {
        let search = format!(
            r#"SELECT count(*) FROM "{table}" WHERE instr(CAST("{column}" AS BLOB), CAST(?1 AS BLOB)) > 0"#
        );
        let rows: i64 = database
            .query_row(&search, [text], |row| row.get(0))
            .expect("every column can be searched");
        rows > 0
    };
    let found = names.iter().filter(|name| holds(name));
    found
        .map(|(table, column)| format!("{table}.{column}"))
        .collect()
}

/// Columns of a PostgreSQL database in which the text is. Bytes are shown in hexadecimal, so that is looked for as well.
pub(crate) async fn in_postgres(url: &str, text: &str) -> BTreeSet<String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    let columns = "SELECT table_schema, table_name, column_name FROM information_schema.columns
                   JOIN information_schema.tables USING (table_schema, table_name)
                   WHERE table_type = 'BASE TABLE'
                     AND table_schema NOT IN ('pg_catalog', 'information_schema')";
    let columns = client
        .query(columns, &[])
        .await
        .expect("the catalog is read");
    assert!(columns.len() > 100, "only {} columns", columns.len());
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut found = BTreeSet::new();
    for row in columns {
        let [schema, table, column] = [0, 1, 2].map(|at| row.get::<_, String>(at));
        let search = format!(
            r#"SELECT count(*) FROM "{schema}"."{table}"
               WHERE position($1 in "{column}"::TEXT) > 0 OR position($2 in "{column}"::TEXT) > 0"#
        );
        let rows = client.query_one(&search, &[&text, &hex]).await;
        let rows: i64 = rows.expect("every column can be searched").get(0);
        if rows > 0 {
            found.insert(format!("{table}.{column}"));
        }
    }
    found
}

/// Files of a folder in which the text is, be it in a free page or a log.
pub(crate) fn in_files(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(folder).expect("the folder is read");
    let files = files.map(|file| file.expect("the folder is read").path());
    let holds = |file: &std::path::PathBuf| {
        let bytes = std::fs::read(file).expect("the file is read");
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    files.filter(holds).collect()
}
