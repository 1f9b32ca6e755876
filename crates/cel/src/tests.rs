use serde_json::{Value, json};
use setpoint_api::Path;
use setpoint_machinery::Interrupt;
use setpoint_machinery::structural::Structural;

use super::Rules;

/// The signal of a request whose client waits.
fn never() -> Interrupt {
    Interrupt::default()
}

/// A schema with a field of each type, and these rules on `spec`.
fn schema(rules: Value) -> Structural {
    Structural::read(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules,
        "properties": {
            "i": {"type": "integer"}, "s": {"type": "string"}, "num": {"type": "number"}, "b": {"type": "boolean"},
            "l": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}},
            "ios": {"x-kubernetes-int-or-string": true},
            "n": {"type": "string", "nullable": true},
            "d": {"type": "string", "format": "date-time"},
            "foo-bar": {"type": "string"}, "namespace": {"type": "string"},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "!has(oldSelf.v) || self.v >= oldSelf.v", "message": "v must not shrink"}]}},
        }}}}),
    )
}

fn refusal(rule: &str) -> String {
    let errors = Rules::compile(&schema(json!([{"rule": rule}])), &Path::new("~")).err().unwrap_or_default();
    let text = errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ");
    match text.split_once("}: ") {
        Some((_, detail)) => detail.to_owned(),
        None => text,
    }
}

fn causes(rules: Value, spec: Value, old: Option<Value>) -> Vec<String> {
    let rules = Rules::compile(&schema(rules), &Path::default()).unwrap();
    let old = old.map(|spec| json!({"spec": spec}));
    rules.validate(&json!({"spec": spec}), old.as_ref(), &never()).0.iter().map(ToString::to_string).collect()
}

fn holds(rule: &str, spec: Value) -> bool {
    causes(json!([{"rule": rule}]), spec, None).is_empty()
}

#[test]
fn errors_are_placed_and_worded_as_in_cel_go() {
    let table = [
        ("self.x", "compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x\n | ....^"),
        (
            "foo",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
        ),
        (
            "self.l.all(x, x > 1)",
            "compilation failed: ERROR: <input>:1:17: found no matching overload for '_>_' applied to '(string, int)'\n | self.l.all(x, x > 1)\n | ................^",
        ),
        (
            "self.s.startsWith(1)",
            "compilation failed: ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'string.(int)'\n | self.s.startsWith(1)\n | .................^",
        ),
        (
            "self.i.all(x, true)",
            "compilation failed: ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.i.all(x, true)\n | ....^",
        ),
        (
            "self.foo-bar == 'a'",
            "compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self.foo-bar == 'a'\n | ....^\nERROR: <input>:1:10: undeclared reference to 'bar' (in container '')\n | self.foo-bar == 'a'\n | .........^",
        ),
        (
            "[1, 'a'].size() == 2",
            "compilation failed: ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a'].size() == 2\n | ....^",
        ),
        ("self.i", "cel expression must evaluate to a bool"),
    ];
    for (rule, expected) in table {
        assert_eq!(refusal(rule), expected, "{rule}");
    }
    assert!(
        refusal("self.i ==")
            .starts_with("compilation failed: ERROR: <input>:1:10: Syntax error: mismatched input")
    );
}

#[test]
fn what_kubernetes_accepts_is_accepted() {
    for rule in [
        "self.ios == 1 || self.ios == 'a'",
        "self.num > 1 && self.i > 1.5",
        "self.m.a == 1 && 'a' in self.m && self.m.all(k, self.m[k] > 1)",
        "self.o == null",
        "self.foo__dash__bar == self.__namespace__",
        "self.l.map(x, size(x)).max() > 1 && self.l + ['a'] == self.l",
        "type(self.ios) == string ? self.ios.endsWith('%') : self.ios > 1",
        "self.?i.orValue(1) == 1 && self.l[?0].hasValue()",
        "quantity(self.s).isGreaterThan(quantity('1')) || ip('1.2.3.4').family() == 4",
        "'%s %d'.format([self.s, self.i]) == ''",
        "self.keyed.exists(e, e.k == 'a' && e.v > 1)",
    ] {
        assert_eq!(refusal(rule), "", "{rule}");
    }
}

#[test]
fn rules_see_values_by_their_schema() {
    assert!(holds("self.num == 1.0", json!({"num": 1})));
    assert!(holds("self.d.getFullYear() == 2020", json!({"d": "2021-01-01T00:00:00+05:00"})));
    assert!(holds("!has(self.n)", json!({"n": null})));
    assert!(holds("self.m['a-b'] == 1", json!({"m": {"a-b": 1}})));
    assert!(holds("self.foo__dash__bar == 'x'", json!({"foo-bar": "x"})));
    assert!(holds("self.?o.?x.orValue('q') == 'q'", json!({})));
    assert!(holds("type(self.ios) == int", json!({"ios": 3})));
}

#[test]
fn macros_with_two_variables_and_opt_map_work() {
    let spec = || json!({"l": ["a", "b"], "m": {"x": 1, "y": 2}, "i": 3});
    for (rule, expected) in [
        ("self.l.all(i, v, i < 2 && v != '')", true),
        ("self.l.exists(i, v, i == 1 && v == 'a')", false),
        ("self.l.existsOne(i, v, v == self.l[i] && i == 0)", true),
        ("self.m.all(k, v, v == self.m[k])", true),
        ("self.m.exists(k, v, k == 'y' && v == 1)", false),
        ("self.l.transformList(i, v, v + string(i)) == ['a0', 'b1']", true),
        ("self.l.transformList(i, v, i > 0, v) == ['b']", true),
        ("self.?i.optMap(x, x + 1).orValue(0) == 4", true),
        ("self.l.transformMap(i, v, v + '!') == {0: 'a!', 1: 'b!'}", true),
        ("self.m.transformMap(k, v, v > 1, v * 10) == {'y': 20}", true),
        ("self.m.transformMapEntry(k, v, {string(v): k}) == {'1': 'x', '2': 'y'}", true),
        ("self.l.transformMapEntry(i, v, i > 0, {v: i}) == {'b': 1}", true),
        ("self.l.sortBy(v, -self.l.indexOf(v)) == ['b', 'a']", true),
        ("[{'n': 2}, {'n': 1}].sortBy(v, v.n)[0].n == 1", true),
        ("timestamp('2020-01-01T00:30:00Z').getHours('-08:00') == 16", true),
        ("timestamp('2020-01-01T23:30:00Z').getDate('+01:00') == 2", true),
        ("self.?s.optMap(x, x + '!').orValue('none') == 'none'", true),
        ("self.?i.optFlatMap(x, x > 5 ? optional.of(x) : optional.none()).hasValue()", false),
    ] {
        assert_eq!(refusal(rule), "", "{rule}");
        assert_eq!(holds(rule, spec()), expected, "{rule}");
    }
    assert!(refusal("self.l.all(i, v, i == v)").contains("'(int, string)'"));
    // Kubernetes 1.37 knows it in stored rules only.
    assert!(refusal("self.l.includes('a')").contains("undeclared reference to 'includes'"));
    assert!(refusal("self.l.sortBy(v, self.o) == self.l").contains("@sortByAssociatedKeys"));
    assert!(refusal("self.l.transformMapEntry(i, v, v) == {}").contains("cel.@mapInsert"));
    let twice =
        causes(json!([{"rule": "self.l.transformMapEntry(i, v, {'k': v}).size() == 1"}]), spec(), None);
    assert!(twice[0].contains("insert failed: key k already exists"), "{twice:?}");
}

#[test]
fn failures_name_rule_message_reason_and_place() {
    let rules = json!([
        {"rule": "self.i > 1"},
        {"rule": "self.i > 2", "message": " too small "},
        {"rule": "self.i > 3", "messageExpression": "'i is ' + string(self.i)", "reason": "FieldValueForbidden", "fieldPath": ".i"},
        {"rule": "10 / self.i > 1"},
        {"rule": "self.l[0] == 'a'"},
    ]);
    assert_eq!(
        causes(rules, json!({"i": 0}), None),
        [
            "spec: Invalid value: failed rule: self.i > 1",
            "spec: Invalid value: too small",
            "spec.i: Forbidden: i is 0",
            "spec: Invalid value: \"object\": division by zero evaluating rule: 10 / self.i > 1",
            "spec: Invalid value: \"object\": no such key: l evaluating rule: self.l[0] == 'a'",
        ]
    );
}

#[test]
fn transition_rules_meet_the_old_value() {
    let rule = || json!([{"rule": "self.s == oldSelf.s", "message": "s is immutable"}]);
    assert!(causes(rule(), json!({"s": "a"}), None).is_empty());
    assert_eq!(
        causes(rule(), json!({"s": "b"}), Some(json!({"s": "a"}))),
        ["spec: Invalid value: s is immutable"]
    );
    let optional = || json!([{"rule": "oldSelf.hasValue() || self.s == 'first'", "optionalOldSelf": true}]);
    assert_eq!(causes(optional(), json!({"s": "b"}), None).len(), 1);
    assert!(causes(optional(), json!({"s": "b"}), Some(json!({"s": "a"}))).is_empty());
    // Items are matched by key, wherever they stand.
    let old = json!({"keyed": [{"k": "a", "v": 5}]});
    let new = json!({"keyed": [{"k": "z", "v": 1}, {"k": "a", "v": 4}]});
    assert_eq!(causes(json!([]), new, Some(old)), ["spec.keyed[1]: Invalid value: v must not shrink"]);
}

#[test]
fn what_did_not_change_is_not_held_against_an_update() {
    let rule = || json!([{"rule": "self.i > 5"}]);
    assert!(causes(rule(), json!({"i": 1}), Some(json!({"i": 1}))).is_empty());
    assert_eq!(causes(rule(), json!({"i": 1, "s": "x"}), Some(json!({"i": 1}))).len(), 1);
}

#[test]
fn old_values_are_for_places_where_they_can_be_matched() {
    let schema = Structural::read(&json!({"type": "object", "properties": {"l": {"type": "array",
        "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}));
    let errors = Rules::compile(&schema, &Path::new("~")).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "~.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within ~.properties[l]"
    );
}

#[test]
fn a_rule_that_may_cost_too_much_is_refused() {
    let check = |spec: Value| -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let causes = Rules::check(&Structural::read(&schema), &Path::new("~"));
        causes.iter().map(ToString::to_string).collect()
    };
    let list = |bounds: Value, rule: &str| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        list.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"l": list}, "x-kubernetes-validations": [{"rule": rule}]})
    };
    let unbounded = check(list(json!({}), "self.l.all(x, self.l.exists(y, x == y))"));
    assert!(
        unbounded[0].contains(
            "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems"
        ),
        "{unbounded:?}"
    );
    let bounds = json!({"maxItems": 10, "items": {"type": "string", "maxLength": 20}});
    assert_eq!(check(list(bounds, "self.l.all(x, self.l.exists(y, x == y))")), Vec::<String>::new());
    assert_eq!(check(list(json!({}), "self.l.size() < 5 && has(self.l)")), Vec::<String>::new());
    // A value below an unbounded list counts as often as it fits into a request.
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]+$')"}]});
    assert!(check(json!({"type": "array", "items": item}))[0].contains("estimated rule cost exceeds"));
}

#[test]
fn zones_have_names() {
    let rule = "timestamp('2020-07-01T00:30:00Z').getHours('America/New_York') == 20";
    let unknown = "unknown time zone America/New_York evaluating rule";
    let found = causes(json!([{"rule": rule}]), json!({}), None);
    if std::path::Path::new("/usr/share/zoneinfo/America/New_York").exists() {
        assert!(found.is_empty(), "{found:?}");
    } else {
        assert!(found[0].contains(unknown), "{found:?}");
    }
    for name in ["No/Where", "../zoneinfo/UTC", "/usr/share/zoneinfo/UTC", "./UTC"] {
        let rule = format!("timestamp('2020-01-01T00:30:00Z').getHours('{name}') == 0");
        let found = causes(json!([{"rule": rule}]), json!({}), None);
        assert!(found[0].contains(&format!("unknown time zone {name}")), "{found:?}");
    }
}

#[test]
fn an_evaluation_that_costs_too_much_is_ended() {
    let each_with_each = "self.l.all(x, self.l.exists(y, [[x], [x], [y], [y]] == []) || true)";
    let rules = json!([{"rule": each_with_each}, {"rule": "false"}]);
    let items = |count: usize| json!({"l": vec!["a"; count]});
    // 10,000 turns of the inner loop cost less than 1,000,000.
    let found = causes(rules.clone(), items(100), None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("failed rule: false"), "{found:?}");
    let found = causes(rules, items(2000), None);
    assert_eq!(
        found,
        [format!(
            "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further \
             validation rules will be run due to call cost exceeds limit for rule: {each_with_each}"
        )]
    );
}

#[test]
fn what_is_long_costs_by_its_length() {
    let rule = "self.l.all(x, !self.s.contains(x))";
    let spec = |length: usize| json!({"l": vec!["b"; 100], "s": "a".repeat(length)});
    assert!(causes(json!([{"rule": rule}]), spec(10_000), None).is_empty());
    assert!(causes(json!([{"rule": rule}]), spec(200_000), None)[0].contains("actual cost limit exceeded"));
}

#[test]
fn all_rules_of_an_object_share_a_budget() {
    let rules: Vec<Value> = (0..20).map(|_| json!({"rule": "self.l.all(x, !self.s.contains(x))"})).collect();
    let spec = json!({"l": vec!["b"; 100], "s": "a".repeat(90_000)});
    let found = causes(json!(rules), spec, None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("running out of cost budget"), "{found:?}");
}

/// As deep as cel-go 0.29.2 takes each shape: what recurses over it must not run out of stack, on the ordinary stack of
/// a thread, when it is compiled, run and dropped.
#[test]
fn what_nests_as_deep_as_it_may_runs() {
    for (first, open, middle, close, rest, most) in [
        ("self.l", ".map(x, x)", "", "", ".size() >= 0", 247),
        ("1", "+1", "", "", " > 0", 249),
        ("self.s", "+'a'", "", "", " != ''", 247),
        ("", "[", "", "]", ".size() >= 0", 249),
        ("", "(", "true", ")", "", 249),
        ("", "!(", "false", ")", "", 249),
        ("", "{1:", "1", "}", ".size() == 1", 248),
        ("", "[1].all(x,", "true", ")", "", 248),
        ("", "[1].exists(i, x,", "true", ")", "", 248),
        ("", "[1].map(x,", "1", ")", ".size() == 1", 248),
        ("", "{'a': 1}.transformMap(k, v,", "1", ")", ".size() == 1", 248),
        ("optional.of(1)", ".optMap(x, x)", "", "", ".hasValue()", 248),
        ("true", "?true:false", "", "", "", 249),
        ("", "1+(", "1", ")", " > 0", 123),
        ("", "size([", "1", "])", " == 1", 124),
    ] {
        let text =
            |count: usize| format!("{first}{}{middle}{}{rest}", open.repeat(count), close.repeat(count));
        assert_eq!(refusal(&text(most)), "", "{open}");
        let told = causes(json!([{"rule": text(most)}]), json!({"l": ["a"], "s": "a"}), None).join("; ");
        assert!(!told.contains("no such"), "{open}: {told}");
        let error = refusal(&text(3000));
        assert!(
            error == "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
                || error == "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded",
            "{open}: {error}"
        );
    }
}

#[test]
fn what_is_no_expression_is_refused_however_deep() {
    let parts = [
        "[",
        "(",
        "{",
        "a.",
        "a[",
        "1+",
        "!",
        "-",
        "a?",
        "a?b:",
        "f(",
        "[)",
        "a.b(",
        "{1:",
        "a&&",
        "[1].all(x,",
        "`",
        "'",
        "//",
    ];
    for part in parts {
        assert_ne!(refusal(&part.repeat(5000)), "", "{part}");
        assert_ne!(refusal(&format!("){}", part.repeat(400))), "", "){part}");
    }
    let many = refusal(&"`\n".repeat(1000));
    assert!(many.ends_with("\n1 more errors were truncated"), "{many}");
    let unknown = refusal(&format!("[{}x]", "x,".repeat(1000)));
    assert!(unknown.ends_with("\n901 more errors were truncated"), "{unknown}");
}

/// In a chain of macros each range was written twice: the expression doubled with every link.
#[test]
fn a_chain_of_macros_grows_with_its_length_only() {
    let spec = || json!({"l": ["a", "b"], "i": 3});
    for (range, link, end) in [
        ("self.l", ".transformList(i, x, x)", " == ['a', 'b']"),
        ("self.l", ".sortBy(x, x)", " == ['a', 'b']"),
        ("{'a': 1}", ".transformMap(k, v, v)", " == {'a': 1}"),
    ] {
        let rule = format!("{range}{}{end}", link.repeat(60));
        assert_eq!(causes(json!([{"rule": rule}]), spec(), None), Vec::<String>::new(), "{link}");
    }
    // cel-go does write the range of these twice, and their costs double: to the limit, but no further.
    for (link, twelve) in [(".optMap(x, x + 1)", 15), (".optFlatMap(x, optional.of(x))", 3)] {
        let rule = |links: usize| format!("self.?i{}.value() == {twelve}", link.repeat(links));
        assert_eq!(causes(json!([{"rule": rule(12)}]), spec(), None), Vec::<String>::new(), "{link}");
        let causes = causes(json!([{"rule": rule(60)}]), spec(), None).join("; ");
        assert!(causes.contains("actual cost limit exceeded"), "{link}: {causes}");
    }
}

/// cel-go charges a tenth of what a text will be long: 20 doublings of 64 letters are 64 million.
#[test]
fn what_is_put_together_is_paid_for_before_it_is_there() {
    let doubled = |of: &str, count: usize| format!("[{of}]{}.size() == 1", ".map(x, x + x)".repeat(count));
    let text = "a".repeat(64);
    assert!(holds(&doubled("self.s", 10), json!({"s": text})));
    for (of, spec) in
        [("self.s", json!({"s": text})), ("self.l", json!({"l": ["a"]})), ("b'abcd'", json!({}))]
    {
        let causes = causes(json!([{"rule": doubled(of, 30)}]), spec, None).join("; ");
        assert!(causes.contains("actual cost limit exceeded"), "{of}: {causes}");
    }
    let many = format!("[{}self.s].size() > 0", "self.s, ".repeat(900));
    let causes = causes(json!([{"rule": many}]), json!({"s": "a".repeat(1024 * 1024)}), None).join("; ");
    assert!(causes.contains("actual cost limit exceeded"), "{causes}");
}

/// A list that a loop makes was copied in every turn.
#[test]
fn a_loop_makes_a_list_in_as_many_steps_as_it_has_items() {
    let items: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    assert!(holds("self.l.map(x, x).filter(x, x != '7').size() == 19999", json!({"l": items})));
}

/// As kube-apiserver 1.37 accepts them.
#[test]
fn public_definitions_use_these() {
    let spec = json!({"namespace": "default", "m": {"k": 3}, "l": ["a"], "s": "x", "i": 1});
    for rule in [
        "has(self.namespace) && self.namespace == 'default' && self.__namespace__ == 'default'",
        "self.?m[?'k'].orValue(0) == 3 && self.?m['k'].orValue(0) == 3",
        "self.?l[0].orValue('') == 'a' && !self.?l[?7].hasValue()",
        "[?self.?s, ?optional.none(), 'y'] == ['x', 'y'] && {?'k': self.?s} == {'k': 'x'}",
        "optional.unwrap([self.?s, optional.none()]) == ['x'] && [self.?s].unwrapOpt() == ['x']",
        "!!(self.i == 1) && !(!(!(self.i == 2)))",
        "string(duration('90s')) == '90s' && string(timestamp('2026-01-01T00:00:00Z')) == '2026-01-01T00:00:00Z'",
        "'abc'.split('') == ['a', 'b', 'c'] && type(self.s) == string && type(self.s) != type('type:string'.size())",
    ] {
        assert_eq!(causes(json!([{"rule": rule}]), spec.clone(), None), Vec::<String>::new(), "{rule}");
    }
}

/// Values below an atomic map have an old value, although the map is owned as a whole.
#[test]
fn transition_rules_work_below_atomic_maps() {
    let schema = Structural::read(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-map-type": "atomic", "properties": {"name": {
            "type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]}}}}}));
    let rules = Rules::compile(&schema, &Path::default()).unwrap();
    let named = |name: &str| json!({"spec": {"name": name}});
    assert!(rules.validate(&named("a"), Some(&named("a")), &never()).0.is_empty());
    assert_eq!(rules.validate(&named("b"), Some(&named("a")), &never()).0.len(), 1);
}

#[test]
fn a_message_that_may_cost_too_much_is_refused() {
    let expensive = "self.l.map(x, self.l.map(y, y.replace('a', x)).join()).join()";
    let schema = schema(json!([{"rule": "true", "messageExpression": expensive}]));
    let causes = Rules::check(&schema, &Path::new("~"));
    let expected = "estimated messageExpression cost exceeds budget by factor of more than 100x";
    assert!(causes.iter().any(|cause| cause.message.contains(expected)), "{causes:?}");
}

/// The words are those of kube-apiserver 1.37.
#[test]
fn a_constant_that_cannot_be_converted_is_refused() {
    let expected = "program instantiation failed: type conversion error from 'string' to 'int'";
    assert_eq!(refusal("self.i == int('one')"), expected);
}

/// The object pays for the evaluation of a message. The figures are those of kube-apiserver 1.37.
#[test]
fn a_message_is_paid_for() {
    let rule =
        json!([{"rule": "false", "message": "no", "messageExpression": "self.l.map(x, x + 'a').join()"}]);
    let rules = Rules::compile(&schema(rule), &Path::default()).unwrap();
    let cost = |items: usize| rules.measure(&json!({"spec": {"l": vec!["b"; items]}}), None).1;
    assert_eq!((cost(0), cost(1), cost(2)), (3, 18, 32));
}

/// Every turn of the outer loop copied the whole range of the inner one, which its cost did not bound.
#[test]
fn a_loop_that_ends_early_does_not_read_its_range() {
    let items: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let entries: serde_json::Map<String, Value> = items.iter().map(|name| (name.clone(), json!(1))).collect();
    let spec = json!({"l": items, "m": entries});
    assert!(holds("self.l.all(x, self.l.exists(y, true)) && self.l.all(x, self.m.exists(k, true))", spec));
}

#[test]
fn an_interrupted_evaluation_ends() {
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, a != b || b != c || a == c)))";
    let rules = Rules::compile(&schema(json!([{"rule": rule}])), &Path::default()).unwrap();
    let object = json!({"spec": {"l": vec!["x"; 20]}});
    assert_eq!(rules.validate(&object, None, &never()).0, []);
    let interrupt = Interrupt::default();
    interrupt.raise();
    // The caller looks at the signal, and drops this.
    assert_eq!(rules.validate(&object, None, &interrupt).0.len(), 1);
}

/// Go formats with up to a million digits. Rust would panic, and a list compared with itself would take minutes.
#[test]
fn formats_and_pairs_are_bounded_before_they_run() {
    let items: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    for rule in
        ["sets.contains(self.l, self.l)", "sets.equivalent(self.l, self.l)", "self.l.distinct().size() > 0"]
    {
        let causes = causes(json!([{"rule": rule}]), json!({"l": items}), None);
        assert!(causes.len() == 1 && causes[0].contains("cost limit exceeded"), "{rule}: {causes:?}");
    }
    assert!(holds("'%.3f'.format([1.0]) == '1.000'", json!({})));
    let digits = causes(json!([{"rule": "'%.70000f'.format([1.0]) != ''"}]), json!({}), None);
    assert!(digits.len() == 1 && digits[0].contains("precision 70000 is more than 65535"), "{digits:?}");
    let many = format!("'{}'.format([{}]) != ''", "%.65000f".repeat(5000), vec!["1.0"; 5000].join(","));
    assert!(!holds(&many, json!({})));
}
