//! Transactions by text: a group of writes is one, each write in it but the first has a savepoint of its own.

statements! {
    /// Takes the write lock at once: no upgrade from a reader, so no deadlock (FAILURES 29).
    BEGIN_WRITE = "BEGIN IMMEDIATE";
    /// One snapshot for all statements of a read.
    BEGIN_READ = "BEGIN DEFERRED";
    /// The end of a group, or of a read.
    COMMIT = "COMMIT";
    /// Nothing of the group is kept.
    ROLLBACK = "ROLLBACK";
    /// The start of one write in a group that holds others.
    SAVEPOINT = "SAVEPOINT job";
    /// The write is kept if its group is.
    RELEASE = "RELEASE job";
    /// Nothing of the write is kept.
    ROLLBACK_TO = "ROLLBACK TO job";
}
