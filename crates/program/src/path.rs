//! Where in a program's JSON something stands.

use std::fmt;

use crate::mistake::Mistake;

/// Longest part of a path that is told: the keys of a program are its author's, and may be of any length.
const PART_CHARS_MAX: usize = 60;

/// A place in a program's JSON, such as `steps[2].branches[0][1].input.$add`.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// The program itself.
    pub(crate) const ROOT: Path<'static> = Path {
        parent: None,
        part: Part::Root,
    };

    pub(crate) const fn field(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            part: Part::Field(name),
        }
    }

    pub(crate) const fn index(&'a self, index: usize) -> Path<'a> {
        Path {
            parent: Some(self),
            part: Part::Index(index),
        }
    }

    pub(crate) fn mistake(&self, problem: impl Into<String>) -> Mistake {
        Mistake {
            path: self.to_string(),
            problem: problem.into(),
        }
    }

    const fn is_root(&self) -> bool {
        matches!(self.part, Part::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|parent| !parent.is_root());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Index(index) => write!(f, "[{index}]"),
            Part::Field(name) => {
                let dot = if parent.is_some() { "." } else { "" };
                let end = name.char_indices().nth(PART_CHARS_MAX);
                match end {
                    Some((end, _)) => write!(f, "{dot}{}…", &name[..end]),
                    None => write!(f, "{dot}{name}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_one_would_write_it() {
        let steps = Path::ROOT.field("steps");
        let step = steps.index(2);
        let branches = step.field("branches");
        let branch = branches.index(0);
        let inner = branch.index(1);
        let input = inner.field("input");
        let text = input.field("$add").to_string();
        assert_eq!(text, "steps[2].branches[0][1].input.$add");
        assert_eq!(Path::ROOT.to_string(), "");
    }

    #[test]
    fn a_key_without_end_is_cut() {
        let key = "ü".repeat(10_000);
        assert!(Path::ROOT.field(&key).to_string().len() < 200);
    }
}
