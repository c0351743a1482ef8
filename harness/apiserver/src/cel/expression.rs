//! Syntax trees.

use std::collections::BTreeSet;

use kube_cel::cel::Value;

/// An expression. Its nesting is limited by the parser.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    /// The position in the text, in characters.
    pub(super) at: usize,
    /// How many expressions are nested in it, including itself.
    pub(super) height: usize,
    /// By how much a value can be nested more deeply than the variables from which it is computed.
    pub(super) levels: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Literal(Value),
    /// A variable.
    Name(String),
    /// `operand.field`
    Select {
        operand: Box<Expression>,
        field: String,
    },
    /// `operand.?field`
    OptionalSelect {
        operand: Box<Expression>,
        field: String,
    },
    /// `has(operand.field)`
    Has {
        operand: Box<Expression>,
        field: String,
    },
    /// `operand[index]`
    Index {
        operand: Box<Expression>,
        index: Box<Expression>,
    },
    /// `operand[?index]`
    OptionalIndex {
        operand: Box<Expression>,
        index: Box<Expression>,
    },
    /// `function(arguments)` or `target.function(arguments)`; a namespace is part of the function.
    Call {
        target: Option<Box<Expression>>,
        function: String,
        arguments: Vec<Expression>,
    },
    Not(Box<Expression>),
    Negate(Box<Expression>),
    Binary {
        operator: Operator,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    /// All of at least two.
    And(Vec<Expression>),
    /// Any of at least two.
    Or(Vec<Expression>),
    Conditional {
        condition: Box<Expression>,
        yes: Box<Expression>,
        no: Box<Expression>,
    },
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    Comprehension(Box<Comprehension>),
    /// `type{field: value}`
    Message {
        type_: String,
        fields: Vec<Field>,
    },
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    /// Whether an optional without a value omits the field.
    pub(super) is_optional: bool,
    pub(super) value: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Operator {
    /// As in error messages of upstream.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Remainder => "_%_",
            Self::Equal => "_==_",
            Self::NotEqual => "_!=_",
            Self::Less => "_<_",
            Self::LessOrEqual => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterOrEqual => "_>=_",
            Self::In => "@in",
        }
    }
}

/// A macro that iterates over a list or the keys of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comprehension {
    pub(super) kind: ComprehensionKind,
    pub(super) range: Expression,
    /// The element; with two variables, the index or key.
    pub(super) first: String,
    /// With two variables, the element or value.
    pub(super) second: Option<String>,
    pub(super) filter: Option<Expression>,
    pub(super) body: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComprehensionKind {
    All,
    Exists,
    ExistsOne,
    /// The filter is the body.
    Filter,
    /// Both `map` and `transformList`.
    Map,
    TransformMap,
    SortBy,
    /// Of the value of an optional.
    OptionalMap,
    /// The body is optional itself.
    OptionalFlatMap,
}

impl Expression {
    /// Whether the expression is a list without items.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(&self.kind, Kind::List(items) if items.is_empty())
    }

    /// How deeply the expression is nested.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// Whether the expression is a variable or a part of one, without operators and functions, or can be one.
    pub(crate) fn is_part(&self) -> bool {
        match &self.kind {
            Kind::Name(_) | Kind::Select { .. } | Kind::Index { .. } => true,
            Kind::Conditional { yes, no, .. } => yes.is_part() || no.is_part(),
            _ => false,
        }
    }

    /// The members of a variable that the expression uses.
    pub(crate) fn members_of(&self, variable: &str) -> BTreeSet<&str> {
        let mut members = BTreeSet::new();
        self.collect_members(variable, &mut members);
        members
    }

    fn collect_members<'a>(&'a self, variable: &str, members: &mut BTreeSet<&'a str>) {
        if let Kind::Select { operand, field } = &self.kind
            && matches!(&operand.kind, Kind::Name(own) if own == variable)
        {
            members.insert(field);
        }
        for part in self.kind.parts() {
            part.collect_members(variable, members);
        }
    }

    /// Whether the expression uses a variable.
    pub(crate) fn uses(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Name(own) if own == name) || self.kind.parts().iter().any(|part| part.uses(name))
    }
}

impl Kind {
    /// See [`Expression::levels`]. Each step of a chain of macros can nest the elements of the previous one.
    pub(super) fn levels(&self) -> usize {
        let most = |parts: Vec<&Expression>| parts.iter().map(|part| part.levels).max().unwrap_or_default();
        match self {
            Self::List(_) | Self::Map(_) | Self::Message { .. } | Self::Call { .. } => {
                most(self.parts()).saturating_add(1)
            }
            Self::Comprehension(inner) => {
                let step = most([&inner.body].into_iter().chain(&inner.filter).collect());
                inner.range.levels.saturating_add(step).saturating_add(1)
            }
            _ => most(self.parts()),
        }
    }

    /// The expressions directly in this one.
    pub(super) fn parts(&self) -> Vec<&Expression> {
        match self {
            Self::Literal(_) | Self::Name(_) => Vec::new(),
            Self::Select { operand, .. } | Self::OptionalSelect { operand, .. } | Self::Has { operand, .. } => {
                vec![operand]
            }
            Self::Index { operand, index } | Self::OptionalIndex { operand, index } => vec![operand, index],
            Self::Call { target, arguments, .. } => target.as_deref().into_iter().chain(arguments).collect(),
            Self::Not(inner) | Self::Negate(inner) => vec![inner],
            Self::Binary { left, right, .. } => vec![left, right],
            Self::And(parts) | Self::Or(parts) | Self::List(parts) => parts.iter().collect(),
            Self::Conditional { condition, yes, no } => vec![condition, yes, no],
            Self::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Self::Message { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Self::Comprehension(inner) => [&inner.range, &inner.body].into_iter().chain(&inner.filter).collect(),
        }
    }
}
