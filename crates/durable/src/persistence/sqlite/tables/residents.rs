//! Workers that live in the process that has the file.

use std::collections::BTreeSet;

use crate::persistence::StoreResult;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::meta as sql;

pub(crate) fn add(db: Db<'_>, worker_id: &str) -> StoreResult<()> {
    db.run(sql::ADD_RESIDENT, [worker_id])?;
    Ok(())
}

/// Takes those of the former process off the list.
pub(crate) fn take(db: Db<'_>) -> StoreResult<BTreeSet<String>> {
    let residents = db.all(sql::RESIDENTS, [], |row| row.text())?;
    db.run(sql::DROP_RESIDENTS, [])?;
    Ok(residents.into_iter().collect())
}
