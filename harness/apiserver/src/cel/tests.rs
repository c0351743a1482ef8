use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn int(value: i64) -> Value {
    Value::Int(value)
}

fn list(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

fn variables() -> Vec<(String, Value)> {
    let map = std::collections::HashMap::from([(Key::from("a"), int(1)), (Key::from("b"), int(2))]);
    [
        ("n", int(3)),
        ("s", "Hello".into()),
        ("l", list((1..=3).map(int).collect())),
        ("m", Value::Map(Map { map: map.into() })),
        ("big", list((0..1000).map(int).collect())),
        ("max", int(i64::MAX)),
        ("long", "x".repeat(100_000).into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn eval(text: &str) -> Result<Value, Failure> {
    evaluate(&parse(text).unwrap(), variables(), &mut Budget::new())
}

#[rstest]
#[case::precedence("1 + 2 * 3 - 4 / 2 % 3 == 5 && !(2 > 3) || false")]
#[case::left_associative("10 - 3 - 2 == 5 && 100 / 10 / 5 == 2")]
#[case::unary("--n == 3 && !!true && - n == -3 && -9223372036854775808 < 0")]
#[case::conditional("n > 2 ? s == 'Hello' : n / 0 == 1")]
#[case::nested_conditional("false ? false : true ? true : false")]
#[case::numbers("0xFF == 255 && 1u + 2u == 3u && 1e3 == 1000.0 && .5 < 1.0 && 1 == 1.0 && 1u == 1")]
#[case::strings(r#"'a\n\x41\u00e4\'' == "a\nAä'" && r'\n' == '\\n' && '''a'b''' == "a'b" && b'\xff' == b"\377""#)]
#[case::comments("// first\ntrue // last")]
#[case::lists("[1, 2, 3,][1] == 2 && l == [1, 2, 3] && 2 in l && !(4 in l) && l + [4] == [1, 2, 3, 4]")]
#[case::maps("{'a': 1}.a == 1 && {'a': 1, 'b': 2} == m && 'a' in m && m['b'] == 2 && has(m.a) && !has(m.c)")]
#[case::size("size(l) == 3 && l.size() == 3 && 'äö'.size() == 2 && m.size() == 2")]
#[case::all("l.all(x, x > 0) && !l.all(x, x > 1) && m.all(k, m[k] < 3) && l.all(i, v, v == i + 1)")]
#[case::exists("l.exists(x, x == 2) && l.exists_one(x, x == 2) && !l.existsOne(x, x > 1)")]
#[case::map("l.map(x, x * 2) == [2, 4, 6] && l.map(x, x > 1, x) == [2, 3] && l.filter(x, x != 2) == [1, 3]")]
#[case::transform("l.transformList(i, v, i * v) == [0, 2, 6] && m.transformMap(k, v, v + 1) == {'a': 2, 'b': 3}")]
#[case::sort_by("['bb', 'a', 'ccc'].sortBy(x, x.size()) == ['a', 'bb', 'ccc']")]
#[case::errors_do_not_outweigh_decisions("(1 / 0 == 1 || true) && !(1 / 0 == 1 && false)")]
#[case::errors_of_elements("[0, 1].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x == 2)")]
#[case::text(
    "s.contains('ell') && s.startsWith('He') && s.endsWith('lo') && s.matches('^H.*o$') && s.lowerAscii() == 'hello'"
)]
#[case::regex("'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']")]
#[case::library("'a,b'.split(',').join('-') == 'a-b' && '%.2f %s'.format([1.5, 'x']) == '1.50 x' && l.sum() == 6")]
#[case::ranges("lists.range(3) == [0, 1, 2] && math.greatest(1, 2) == 2 && sets.contains(l, [1])")]
#[case::conversions("int('5') == 5 && string(5) == '5' && double('1.5') == 1.5 && type(n) == int && type(s) == string")]
#[case::times("timestamp('2026-01-01T00:00:00Z') + duration('1h') == timestamp('2026-01-01T01:00:00Z')")]
#[case::units_of_long_durations(
    "duration('1000h').getMilliseconds() == 3600000000 && duration('1000h').getSeconds() == 3600000 && duration('90m').getHours() == 1"
)]
#[case::fields_of_times(
    "[timestamp('2024-12-29T23:05:06.789Z')].all(t, [t.getFullYear(), t.getMonth(), t.getDate(), t.getDayOfMonth(), t.getDayOfWeek(), \
     t.getDayOfYear(), t.getHours(), t.getMinutes(), t.getSeconds(), t.getMilliseconds()] == [2024, 11, 29, 28, 0, 363, 23, 5, 6, 789])"
)]
#[case::fields_of_times_in_zones(
    "[timestamp('2024-12-29T23:05:06Z')].all(t, [t.getHours('Europe/Berlin'), t.getDate('Europe/Berlin'), t.getHours('-08:30'), \
     t.getMinutes('-08:30'), t.getHours('02:00'), t.getHours('UTC')] == [0, 30, 14, 35, 1, 23])"
)]
#[case::quantities("quantity('1Gi').isGreaterThan(quantity('1M')) && !isQuantity('x')")]
#[case::large_exponents(
    "quantity('1e-999999999') == quantity('1n') && quantity('1e999999999').isGreaterThan(quantity('1E'))"
)]
#[case::optionals(
    "m.?a.orValue(5) == 1 && m.?c.orValue(5) == 5 && m[?'c'].hasValue() == false && optional.of(1).optMap(x, x + 1).value() == 2"
)]
#[case::sorts_of_mixed_numbers(
    "[9007199254740993, 9007199254740992.0, 1.5, 2u, -1, 0.5, 1].sortBy(x, x) == [-1, 0.5, 1, 1.5, 2u, 9007199254740992, 9007199254740993]"
)]
#[case::formats_of_maps(
    "'%d %s'.format([1, {'c': [1.0, null], 'a': 'x', 'b': {true: 1u}}]) == '1 {\"a\":\"x\", \"b\":{true:1}, \"c\":[1.0, null]}'"
)]
#[case::booleans("bool('true') && bool(true) && !bool('F')")]
#[case::large_patterns("s.matches('^.{1,253}$') && s.matches('^[^\\\\s]{1,250}$')")]
#[case::base64("base64.encode(b'hello') == 'aGVsbG8=' && base64.decode('aGVsbG8=') == b'hello'")]
#[case::namespaces_are_no_reserved_names("['x'].all(format, format.startsWith('x')) && ['x'].all(math, math == 'x')")]
fn expressions_are_evaluated(#[case] text: &str) {
    assert_eq!(eval(text), Ok(Value::Bool(true)));
}

#[rstest]
#[case("1 / 0", "division by zero")]
#[case("1 % 0", "modulus by zero")]
#[case("max + 1", "integer overflow")]
#[case("-max - 2", "integer overflow")]
#[case("max * 2", "integer overflow")]
#[case("-(-max - 1)", "integer overflow")]
#[case("(-max - 1) / -1", "integer overflow")]
#[case("[max, max].sum()", "integer overflow")]
#[case("1 + 'a'", "no such overload")]
#[case("l[3]", "index out of bounds: 3")]
#[case("l[-1]", "index out of bounds: -1")]
#[case("m.c", "no such key: c")]
#[case("n.c", "no such overload")]
#[case("'%.1000000000f'.format([1.0])", "a precision exceeds 1000")]
#[case("'%.99999999999999999999f'.format([1.0])", "a precision exceeds 1000")]
#[case("bool('yes')", "type conversion error from 'string' to 'bool'")]
#[case("int(m)", "no such overload")]
#[case("double(optional.of(m))", "no such overload")]
#[case("string([m])", "no such overload")]
#[case("[m, m].join()", "no such overload")]
#[case("'%s'.format([optional.of(m)])", "no such overload")]
#[case("max(m, m)", "no such overload")]
#[case("optional.none().value()", "optional.none() dereference")]
fn errors_are_reported(#[case] text: &str, #[case] why: &str) {
    assert_eq!(eval(text), Err(Failure::Error(why.to_owned())));
}

#[rstest]
#[case("s.matches('(')")]
#[case("s.matches('(a{1000}){1000}')")]
#[case("quantity('x')")]
#[case("timestamp('99999-01-01T00:00:00Z')")]
#[case("int('99999999999999999999')")]
#[case("int(1e300)")]
#[case("uint(-1)")]
#[case("s.substring(3, 1)")]
#[case("s.charAt(99)")]
#[case("[].max()")]
#[case("math.bitShiftLeft(1, -1)")]
#[case("[1].slice(5, 2)")]
#[case("timestamp('9999-12-31T23:59:59Z') + duration('9999h')")]
fn failing_functions_do_not_panic(#[case] text: &str) {
    assert!(matches!(eval(text), Err(Failure::Error(_))), "{:?}", eval(text));
}

#[rstest]
#[case::nested("big.all(a, big.all(b, big.all(c, a + b + c >= 0)))")]
#[case::range("lists.range(1000000000).size() > 0")]
#[case::range_of_a_variable("lists.range(max).size() > 0")]
#[case::nested_ranges("lists.range(1000).map(x, lists.range(1000)).size() > 0")]
#[case::doubled_lists("big.map(x, big).map(x, big.map(y, x)).size() > 0")]
#[case::doubled_texts("(long + long + long + long + long + long).map(x, x)")]
#[case::shared_values(
    "[1].map(x, [x, x]).map(x, [x, x, x, x, x, x]) == [big].map(x, lists.range(9).map(y, lists.range(9).map(z, lists.range(9).map(w, lists.range(9).map(v, lists.range(9).map(u, x))))))"
)]
#[case::replacement("long.replace('x', long).size() > 0")]
#[case::replacement_of_nothing("long.replace('', long).size() > 0")]
#[case::joined("lists.range(100000).map(x, '').join(long).size() > 0")]
#[case::patterns("big.all(x, big.all(y, !long.matches('(x*)*y')))")]
#[case::empty_matches("big.all(x, big.all(y, long.findAll('').size() > 0))")]
#[case::long_patterns("lists.range(20).all(x, !s.matches('a' + string(x) + long))")]
#[case::large_patterns("lists.range(100).all(x, !s.matches('.{500}' + string(x)))")]
#[case::compiled_patterns("big.all(x, big.all(y, s.matches('a' + string(x) + string(y)) || true))")]
#[case::searches_with_large_patterns(
    "[long.substring(0, 2000)].all(text, lists.range(100).all(x, !text.matches('x[xy]{5000}z')))"
)]
#[case::searches_that_read_the_rest("long.findAll('x.*z|x').size() > 0")]
#[case::long_items("[long + long].map(x, big.map(y, x + 'a')).all(all, big.all(y, !((long + long + 'b') in all)))")]
#[case::long_keys("lists.range(100000).all(x, !(long in m))")]
#[case::long_indexes("lists.range(100000).all(x, !m[?long].hasValue())")]
#[case::long_new_keys("lists.range(10000).all(x, {long: 1}.size() == 1)")]
#[case::long_sort_keys("lists.range(1000).sortBy(x, long).size() > 0")]
#[case::searches("long.indexOf(long.substring(1) + 'y') == 0")]
#[case::long_names(&format!("lists.range(20000).all(x, !has(m.{}))", "x".repeat(9_000)))]
#[case::long_variables(&format!("lists.range(20000).all({}, true)", "x".repeat(9_000)))]
#[case::long_keys_of_compared_maps("[{long: 1}].map(map, lists.range(100).all(x, map == map)).size() > 0")]
#[case::split_texts("lists.range(9).all(x, long.split('').size() > 0)")]
#[case::precisions("lists.range(10000).map(x, '%.1000f').join().format(lists.range(10000).map(x, 1.0)) != ''")]
#[case::long_numbers(
    "[lists.range(20000).map(x, 1e300)].map(all, lists.range(10).all(x, '%s'.format([all]) != '')).size() > 0"
)]
#[case::distinct_lists("[lists.range(20000)].map(all, lists.range(50).map(x, all + [x]).distinct()).size() > 0")]
#[case::sets_of_lists(
    "[lists.range(20000)].map(all, sets.contains(big.map(x, x), lists.range(40).map(x, all))).size() > 0"
)]
#[case::distinct("lists.range(2000).distinct().size() > 0")]
fn expensive_expressions_are_stopped(#[case] text: &str) {
    let expensive = match parse(text) {
        Ok(expression) => evaluate(&expression, variables(), &mut Budget::new()),
        Err(error) => panic!("{error}"),
    };
    assert!(
        matches!(expensive, Err(Failure::CallLimit | Failure::Error(_))),
        "{expensive:?}"
    );
}

#[test]
fn all_expressions_of_an_object_share_compiled_patterns() {
    let mut budget = Budget::new();
    let expression = parse(&format!("s.matches('{}')", "a?".repeat(1000))).unwrap();
    for _ in 0..1000 {
        let result = evaluate(&expression, variables(), &mut budget);
        assert_eq!(result, Ok(Value::Bool(true)));
    }
}

#[test]
fn all_expressions_of_an_object_share_a_budget() {
    let mut budget = Budget::new();
    let expression = parse("lists.range(300000).all(x, x >= 0) || true").unwrap();
    let mut run = || evaluate(&expression, Vec::new(), &mut budget);
    let results: Vec<_> = (0..20).map(|_| run()).collect();
    assert_eq!(results.first(), Some(&Err(Failure::CallLimit)));
    assert_eq!(results.last(), Some(&Err(Failure::ObjectLimit)));
}

#[rstest]
#[case::parentheses("(", "true", ")", 249, true)]
#[case::parentheses("(", "true", ")", 250, false)]
#[case::parentheses("(", "true", ")", 49_000, false)]
#[case::lists("[", "", "]", 240, true)]
#[case::lists("[", "", "]", 49_000, false)]
#[case::maps("{1:", "1", "}", 20_000, false)]
#[case::negations("!", "true", "", 99_000, true)]
#[case::negated_parentheses("!(", "true", ")", 200, true)]
#[case::negated_parentheses("!(", "true", ")", 30_000, false)]
#[case::sums("1+", "1", "", 200, true)]
#[case::sums("1+", "1", "", 49_000, false)]
#[case::conjunctions("true&&", "true", "", 16_000, true)]
#[case::conditionals("true?true:", "true", "", 9_900, false)]
#[case::members("", "a", ".a", 200, true)]
#[case::members("", "a", ".a", 49_000, false)]
#[case::indexes("a[", "0", "]", 33_000, false)]
#[case::calls("a(", "0", ")", 33_000, false)]
#[case::methods("", "a", ".a()", 24_000, false)]
#[case::comprehensions("[1].all(x,", "true", ")", 9_000, false)]
#[case::optionals("", "a", ".?a", 30_000, false)]
fn the_nesting_is_limited(
    #[case] before: &str,
    #[case] inner: &str,
    #[case] after: &str,
    #[case] times: usize,
    #[case] parses: bool,
) {
    let text = format!("{}{inner}{}", before.repeat(times), after.repeat(times));
    assert_eq!(parse(&text).is_ok(), parses, "{:?}", parse(&text).err());
    if let Ok(expression) = parse(&text) {
        // Neither of them overflows the stack.
        let variables = vec![("a".to_owned(), Type::Dynamic)];
        let _ = Environment::new(&text, variables).estimate(&expression);
        let _ = evaluate(&expression, Vec::new(), &mut Budget::new());
    }
}

/// `count` macros, each of which nests the elements of the previous one.
fn nested_in_a_chain(macro_: &str, levels: usize, count: usize) -> String {
    let body = format!("{}a{}", "[".repeat(levels), "]".repeat(levels));
    format!("[1]{}", format!(".{macro_}(a, {body})").repeat(count))
}

#[rstest]
#[case::below_the_limit("map", 120, 2, true)]
#[case::above_the_limit("map", 124, 2, false)]
#[case::chain("map", 125, 120, false)]
#[case::chain_of_optionals("optMap", 125, 120, false)]
fn the_nesting_of_values_is_limited(
    #[case] macro_: &str,
    #[case] levels: usize,
    #[case] count: usize,
    #[case] parses: bool,
) {
    let text = nested_in_a_chain(macro_, levels, count);
    assert_eq!(parse(&text).is_ok(), parses);
    if parses {
        assert_eq!(eval(&format!("{text} == {text}")), Ok(Value::Bool(true)));
        assert!(estimate(&format!("{text} == {text}")).is_ok());
    }
}

#[rstest]
#[case("1 +", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'['")]
#[case("(1", "mismatched input '<EOF>' expecting ')'")]
#[case("1 2", "mismatched input '2' expecting <EOF>")]
#[case("'a", "a string is not closed")]
#[case("has(a)", "invalid argument to has() macro")]
#[case("[1].all(1, true)", "argument is not an identifier")]
#[case("9223372036854775808", "invalid int literal")]
#[case("1e999", "invalid double literal")]
#[case("if", "reserved identifier: if")]
#[case("a @ b", "token recognition error at: '@'")]
fn syntax_errors_are_reported(#[case] text: &str, #[case] why: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn long_expressions_are_rejected() {
    assert!(parse(&format!("'{}'", "ä".repeat(99_998))).is_ok());
    let error = parse(&format!("'{}'", "ä".repeat(99_999))).unwrap_err();
    assert!(error.to_string().contains("size: 100001, limit 100000"), "{error}");
}

fn estimate(text: &str) -> Result<Estimate, String> {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "array", "items": { "type": "integer" } },
            "s": { "type": "string" },
            "short": { "type": "string", "maxLength": 10 },
            "m": { "type": "object", "additionalProperties": { "type": "string" } },
            "n": { "type": "integer" },
            "few": { "type": "array", "maxItems": 10, "items": { "type": "integer" } },
        },
    });
    let type_ = Type::of_schema(&schema).unwrap();
    let expression = parse(text).map_err(|error| error.to_string())?;
    let variables = vec![("self".to_owned(), type_)];
    let estimate = Environment::new(text, variables).estimate(&expression);
    estimate.map_err(|problem| problem.to_string())
}

/// The costs that kube-apiserver 1.36 reports, up to rounding.
#[rstest]
#[case::select("self.n > 0", 3)]
#[case::unlimited_list("self.a.all(x, x > 0)", 1_572_863 * 5 + 3)]
#[case::limited_list("self.few.all(x, x > 0)", 10 * 5 + 3)]
#[case::transformed("self.a.transformList(i, v, v + i).size() > 0", 1_572_863 * 15 + 15)]
#[case::text("self.s.lowerAscii() == ''", 314_573 + 2)]
#[case::short_text("self.short.contains('abc')", 4 + 2)]
#[case::short_texts("self.short == self.short", 4 + 4)]
#[case::constant_range("lists.range(1000000000).size() > 0", 1_000_000_002)]
fn costs_are_estimated(#[case] text: &str, #[case] cost: u64) {
    assert_eq!(estimate(text).unwrap().cost, cost);
}

#[rstest]
#[case(
    "foo == 1",
    "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^"
)]
#[case(
    "self.zzz == 1",
    "ERROR: <input>:1:5: undefined field 'zzz'\n | self.zzz == 1\n | ....^"
)]
#[case(
    "has(self.zzz)",
    "ERROR: <input>:1:4: undefined field 'zzz'\n | has(self.zzz)\n | ...^"
)]
#[case(
    "self.a == 1",
    "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(list(int), int)'\n | self.a == 1\n | .......^"
)]
#[case(
    "self.n.foo()",
    "ERROR: <input>:1:11: undeclared reference to 'foo' (in container '')\n | self.n.foo()\n | ..........^"
)]
fn unknown_names_are_reported_as_upstream_does(#[case] text: &str, #[case] why: &str) {
    assert_eq!(estimate(text).unwrap_err(), why);
}

/// Expressions of random structure.
fn any_expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "0",
        "-1",
        "9223372036854775807",
        "1.5",
        "'a'",
        "'%.9f'",
        "true",
        "null",
        "n",
        "s",
        "l",
        "m",
        "x",
        "[]",
        "{}",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operators = vec!["+", "-", "*", "/", "%", "==", "<", "in", "&&", "||"];
        let functions = vec![
            "size",
            "sum",
            "max",
            "min",
            "contains",
            "format",
            "join",
            "split",
            "substring",
            "charAt",
            "slice",
            "flatten",
            "distinct",
            "sort",
            "reverse",
            "indexOf",
            "replace",
            "matches",
            "find",
            "lowerAscii",
            "orValue",
            "first",
        ];
        let globals = vec![
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "duration",
            "timestamp",
            "quantity",
            "lists.range",
            "math.abs",
            "math.greatest",
            "math.bitShiftLeft",
            "sets.contains",
            "type",
            "dyn",
            "optional.of",
        ];
        let macros = vec!["all", "exists", "exists_one", "map", "filter", "sortBy", "optMap"];
        prop_oneof![
            (inner.clone(), prop::sample::select(operators), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            (
                inner.clone(),
                prop::sample::select(functions),
                prop::collection::vec(inner.clone(), 0..3)
            )
                .prop_map(|(target, function, arguments)| format!("{target}.{function}({})", arguments.join(","))),
            (
                prop::sample::select(globals),
                prop::collection::vec(inner.clone(), 0..3)
            )
                .prop_map(|(function, arguments)| format!("{function}({})", arguments.join(","))),
            (inner.clone(), prop::sample::select(macros), inner.clone())
                .prop_map(|(range, name, body)| format!("{range}.{name}(x, {body})")),
            (inner.clone(), inner.clone()).prop_map(|(operand, index)| format!("{operand}[{index}]")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    })
}

proptest! {
    /// The test fails if it panics or takes too long.
    #[test]
    fn any_expression_is_evaluated_or_rejected(text in any_expression()) {
        if let Ok(expression) = parse(&text) {
            let types = variables().into_iter().map(|(name, _)| (name, Type::Dynamic)).collect();
            let _ = Environment::new(&text, types).estimate(&expression);
            let _ = evaluate(&expression, variables(), &mut Budget::new());
        }
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in r#"[()\[\]{}a1.?:,'"\\ !&|<>=+*/%-]{0,60}"#) {
        let _ = parse(&text);
    }
}
