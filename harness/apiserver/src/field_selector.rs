//! The text form of field selectors. The authorizer and the registry use the same terms, so that a request gets only
//! what it was authorized for. This module knows no resources.

use crate::status::ApiError;

/// One term: `field=value` or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) field: String,
    pub(crate) equal: bool,
    pub(crate) value: String,
}

/// Parses `a=b,c!=d`. In values, a backslash escapes `\`, `,` and `=`.
///
/// # Errors
/// 400 with the term that is invalid.
pub(crate) fn parse(text: &str) -> Result<Vec<Term>, ApiError> {
    let mut terms = Vec::new();
    for part in split(text).iter().filter(|part| !part.is_empty()) {
        let Some((field, equal, value)) = split_term(part) else {
            return Err(ApiError::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            )));
        };
        terms.push(Term {
            field: field.to_owned(),
            equal,
            value: unescape(value)?,
        });
    }
    Ok(terms)
}

/// The name that the terms require, if any. A name that cannot be part of a path counts as none, as upstream.
pub(crate) fn exact_name(terms: &[Term]) -> Option<&str> {
    let term = terms.iter().find(|term| term.equal && term.field == "metadata.name")?;
    let name = term.value.as_str();
    (!matches!(name, "" | "." | "..") && !name.contains(['/', '%'])).then_some(name)
}

/// Splits at unescaped commas.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        if character == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = character == '\\' && !escaped;
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at_checked(at)?;
        let unequal = rest.strip_prefix("!=").map(|value| (field, false, value));
        let equal = || rest.strip_prefix("==").or_else(|| rest.strip_prefix('='));
        unequal.or_else(|| equal().map(|value| (field, true, value)))
    })
}

fn unescape(text: &str) -> Result<String, ApiError> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let sequence: String = other.into_iter().collect();
                    return Err(ApiError::bad_request(format!(
                        "invalid field selector: invalid escape sequence: \\{sequence}"
                    )));
                }
            },
            // Upstream's message has the number of the character.
            ',' | '=' => {
                return Err(ApiError::bad_request(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(character)
                )));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// The names for which kube-apiserver 1.36 authorizes these selectors.
    #[rstest]
    #[case("metadata.name=mine", Some("mine"))]
    #[case("metadata.name==mine", Some("mine"))]
    #[case("metadata.name!=mine", None)]
    #[case(r"metadata.name!=x\,metadata.name=mine", None)]
    #[case("metadata.name=mine,metadata.name=other", Some("mine"))]
    #[case("metadata.namespace=default,metadata.name=mine,", Some("mine"))]
    #[case(",metadata.name=mine", Some("mine"))]
    #[case(r"metadata.name=mi\ne", None)]
    #[case(r"metadata.name=mine\,", Some("mine,"))]
    #[case(r"metadata.name=mine\=x", Some("mine=x"))]
    #[case(" metadata.name=mine", None)]
    #[case("metadata.name= mine", Some(" mine"))]
    #[case("metadata.name = mine", None)]
    #[case("metadata.name", None)]
    #[case("metadata.name=", None)]
    #[case("metadata.name==mine=x", None)]
    #[case(r"metadata\.name=mine", None)]
    #[case("metadata.name=a!=b", None)]
    #[case("metadata.name=mine,broken", None)]
    #[case("metadata.name=.", None)]
    #[case("metadata.name=a/b", None)]
    fn selectors_require_names(#[case] text: &str, #[case] name: Option<&str>) {
        let terms = parse(text).unwrap_or_default();
        assert_eq!(exact_name(&terms), name);
    }

    #[rstest]
    #[case("metadata.name==mine=x", "invalid field selector: unescaped character in value: 61")]
    #[case(r"a=b\", r"invalid field selector: invalid escape sequence: \")]
    #[case(r"a=b\n", r"invalid field selector: invalid escape sequence: \n")]
    #[case("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'")]
    #[case("x!y", "invalid selector: 'x!y'; can't understand 'x!y'")]
    fn invalid_selectors_are_bad_requests(#[case] text: &str, #[case] why: &str) {
        let error = parse(text).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (400, why));
    }

    proptest! {
        #[test]
        fn an_escaped_value_is_read_back(value in r"[a-z\\,=!ä]{0,8}") {
            let escaped = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            let terms = parse(&format!("a!={escaped},b={escaped}")).unwrap();
            let values: Vec<&str> = terms.iter().map(|term| term.value.as_str()).collect();
            prop_assert_eq!(values, [value.as_str(), value.as_str()]);
        }
    }
}
