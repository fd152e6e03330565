//! The operators and how many operands each takes.

/// What an expression does with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
    Eq,
    Lt,
    Not,
    And,
    Or,
    Concat,
    Len,
    Get,
}

/// How many operands an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arity {
    /// One, written as it is.
    One,
    /// Two, in an array.
    Two,
    /// One or more, in an array.
    Some,
}

const ALL: [Operator; 11] = [
    Operator::Add,
    Operator::Sub,
    Operator::Mul,
    Operator::Eq,
    Operator::Lt,
    Operator::Not,
    Operator::And,
    Operator::Or,
    Operator::Concat,
    Operator::Len,
    Operator::Get,
];

impl Operator {
    /// The key it is written as.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Add => "$add",
            Self::Sub => "$sub",
            Self::Mul => "$mul",
            Self::Eq => "$eq",
            Self::Lt => "$lt",
            Self::Not => "$not",
            Self::And => "$and",
            Self::Or => "$or",
            Self::Concat => "$concat",
            Self::Len => "$len",
            Self::Get => "$get",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|operator| operator.name() == name)
    }

    /// All names, for people.
    pub(super) fn names() -> String {
        ALL.map(Self::name).join(", ")
    }

    pub(super) const fn arity(self) -> Arity {
        match self {
            Self::Not | Self::Len => Arity::One,
            Self::Add | Self::Sub | Self::Mul | Self::Eq | Self::Lt | Self::Get => Arity::Two,
            Self::And | Self::Or | Self::Concat => Arity::Some,
        }
    }
}

impl Arity {
    pub(super) const fn takes(self, operands: usize) -> bool {
        match self {
            Self::One => operands == 1,
            Self::Two => operands == 2,
            Self::Some => operands >= 1,
        }
    }

    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::One => "one operand",
            Self::Two => "an array of two operands",
            Self::Some => "an array of one or more operands",
        }
    }
}
