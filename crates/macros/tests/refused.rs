//! What the attributes refuse, and the sentence that says how to mend it.
//!
//! `TRYBUILD=overwrite cargo test -p durable-macros --test refused` writes the messages anew; read the difference.

#[test]
fn what_is_refused_says_how_to_mend_it() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
