use rstest::rstest;

use super::*;

fn fleet() -> Fleet {
    let member = |machine: &str, of: Option<(&str, u64)>| Member {
        machine: machine.to_owned(),
        vm: format!("vm-{machine}"),
        node: machine.to_owned(),
        zone: "z1".to_owned(),
        of: of.map(|(name, nth)| (name.to_owned(), nth)),
    };
    Fleet {
        members: vec![
            member("m-1", None),
            member("pool-x", Some(("pool", 0))),
            member("pool-y", Some(("pool", 1))),
        ],
        zones: vec!["z1".to_owned(), "z2".to_owned()],
    }
}

fn request(fault: &str, targets: &[&str], seconds: Option<u64>) -> FaultRequest {
    FaultRequest {
        fault: fault.to_owned(),
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        seconds,
        code: (fault == "cloud.code").then(|| "Unavailable".to_owned()),
    }
}

/// A request that each fault accepts.
fn valid(fault: &Fault) -> FaultRequest {
    let targets: &[&str] = match fault.needs {
        Needs::Machines => &["m-1"],
        Needs::Zones => &["z1"],
        Needs::Nothing => &[],
    };
    request(fault.name, targets, fault.lasts.then_some(30))
}

#[test]
fn each_fault_has_steps_a_preview_a_command_if_there_is_one_and_an_end_if_it_lasts() {
    for fault in all() {
        let plan = decide(&valid(&fault), &fleet(), 1).unwrap_or_else(|error| panic!("{}: {error}", fault.name));
        assert!(!plan.begin.is_empty() && !plan.hits.is_empty(), "{plan:?}");
        let is_of_process = matches!(
            fault.kind,
            FaultKind::Restart(_) | FaultKind::Pause(_) | FaultKind::Crash(..)
        );
        let has_no_command = is_of_process || fault.kind == FaultKind::CreateVm;
        assert_eq!(plan.commands.is_empty(), has_no_command, "{plan:?}");
        assert_eq!(!plan.end.is_empty(), fault.lasts && !is_of_process, "{plan:?}");
        assert!(plan.preview().plan.starts_with("- {"), "{:?}", plan.preview());
    }
}

/// A definition of the schema of scenarios, which is generated from the types.
fn definition(name: &str) -> Value {
    let schema = include_str!("../../../../docs/reference/schemas/scenario.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    schema["definitions"][name].clone()
}

/// The names of an enum's values in a schema.
fn variants(name: &str) -> Vec<String> {
    let definition = definition(name);
    let forms = definition["oneOf"].as_array().unwrap().iter();
    let names = forms.flat_map(|form| match form["const"].as_str() {
        Some(name) => vec![name.to_owned()],
        None => form["properties"].as_object().unwrap().keys().cloned().collect(),
    });
    names.collect()
}

/// What a rule can do to a request or to a call, less the wrong answers that no controller can bear.
#[test]
fn each_action_of_a_rule_has_a_fault() {
    let all = all();
    let has = |action: &str| all.iter().any(|fault| fault.rule["action"].get(action).is_some());
    for action in variants("Action2").iter().filter(|action| *action != "duplicateEvent") {
        assert!(has(action), "API server: {action}");
    }
    // `error` is `code` with a text, `at` is checked below.
    let varied = ["error", "message", "at", "lie", "nameless"];
    let fields = definition("Action")["properties"].as_object().unwrap().clone();
    for action in fields.keys().filter(|action| !varied.contains(&action.as_str())) {
        assert!(has(action), "cloud: {action}");
    }
}

#[test]
fn each_action_on_a_vm_and_on_a_kubelet_has_a_fault() {
    let all = all();
    let has = |name: &str| all.iter().any(|fault| fault.name == name);
    for action in variants("VmAction") {
        assert!(has(&format!("vm.{action}")), "{action}");
    }
    // These end others.
    let ends = ["start", "reconnect", "end"];
    for action in variants("KubeletAction")
        .iter()
        .filter(|action| !ends.contains(&action.as_str()))
    {
        assert!(has(&format!("kubelet.{action}")), "{action}");
    }
}

/// The variants of one action: what it does before or after the effect, and to which call.
#[test]
fn each_variant_of_an_action_has_a_fault() {
    let all = all();
    let has = |is: &dyn Fn(&Value) -> bool| all.iter().any(|fault| is(&fault.rule["action"]));
    for code in [401, 403, 409, 410, 413, 429, 500, 503, 504] {
        assert!(has(&|action| action["fail"]["code"] == code), "{code}");
    }
    for action in ["delay", "drop", "fail"] {
        for at in ["beforeCommit", "afterCommit"] {
            let is_at = |rule: &Value| rule["at"] == at || rule["at"].is_null() && at == "beforeCommit";
            assert!(has(&|rule| rule.get(action).is_some_and(is_at)), "{action} {at}");
        }
    }
    for (call, action) in [
        ("initializeMachine", "partial"),
        ("updateMachine", "partial"),
        ("deleteMachine", "effectDelay"),
        ("deleteMachine", "stuck"),
        ("deleteMachine", "partial"),
        ("listMachines", "stale"),
        ("attachVolume", "code"),
        ("attachVolume", "effectDelay"),
        ("detachVolume", "code"),
    ] {
        let is = |fault: &Fault| fault.rule["match"]["call"] == call && fault.rule["action"].get(action).is_some();
        assert!(all.iter().any(is), "{call} {action}");
    }
}

#[rstest]
#[case::all("api.slow", "requests of mcm")]
#[case::writes("api.conflict", "update, patch requests of mcm")]
#[case::renewals("api.loseLease", "update, patch requests of mcm for leases")]
#[case::once("api.compact", "the next request of mcm")]
#[case::one_method("cloud.lostVolume", "calls attachVolume of the cloud")]
#[case::all_methods("cloud.slow", "calls of the cloud")]
fn a_preview_says_what_a_rule_hits(#[case] name: &str, #[case] expected: &str) {
    let fault = all().into_iter().find(|fault| fault.name == name).unwrap();
    assert_eq!(decide(&valid(&fault), &fleet(), 1).unwrap().hits, [expected]);
}

/// A plan that creates the machine of the requests.
fn session() -> scenario::plan::Plan {
    let scenario = scenario::Scenario::new("session", "A session.");
    scenario::plan::Plan::new(scenario.step(scenario::builder::create_machine("m-1")), 1)
}

#[test]
fn the_steps_of_each_fault_are_a_valid_plan() {
    for fault in all() {
        let plan = decide(&valid(&fault), &fleet(), 1).unwrap();
        let mut session = session();
        let planned = plan.begin.iter().chain(&plan.end).map(|step| step.planned.clone());
        session.scenario.steps.extend(planned);
        session.may_miss = true;
        let problem = session.validate();
        // The zones of a world are its own.
        assert!(
            problem.is_ok() || fault.needs == Needs::Zones,
            "{}: {problem:?}",
            fault.name
        );
    }
}

#[test]
fn in_a_simulated_world_a_fault_is_a_disturbance_at_its_place() {
    let plan = decide(&request("kubelet.partition", &["pool-x"], Some(45)), &fleet(), 1).unwrap();
    let preview = plan.preview_at(Duration::from_secs(90), 7);
    assert_eq!(preview.commands, Vec::<String>::new());
    let lines: Vec<Value> = preview
        .plan
        .lines()
        .map(|line| serde_json::from_str(line.strip_prefix("- ").unwrap()).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            json!({ "step": { "at": "1m30s", "afterEvents": 7, "do": { "kubelet": { "machine": "pool-x", "do": "partition" } } } }),
            json!({ "step": { "at": "2m15s", "do": { "kubelet": { "machine": "pool-x", "do": "reconnect" } } } }),
        ]
    );
    let ended = plan.timed_end(Duration::from_secs(100), Some(9));
    assert_eq!((ended.len(), ended[0].after_events), (1, Some(9)));
}

#[test]
fn each_fault_is_a_valid_disturbance() {
    for fault in all() {
        let plan = decide(&valid(&fault), &fleet(), 1).unwrap();
        let mut session = session();
        let steps = plan.timed(Duration::from_secs(90), 7).into_iter();
        session.disturbances = steps.map(|step| Disturbance::Step(Box::new(step))).collect();
        let problem = session.validate();
        assert!(
            problem.is_ok() || fault.needs == Needs::Zones,
            "{}: {problem:?}",
            fault.name
        );
    }
}

#[test]
fn a_machine_of_a_pool_is_chosen_by_its_position_in_a_plan() {
    let plan = decide(&request("vm.kill", &["pool-*"], None), &fleet(), 1).unwrap();
    assert_eq!(
        (plan.hits.as_slice(), plan.of),
        (["pool-x".to_owned(), "pool-y".to_owned()].as_slice(), 3)
    );
    assert_eq!(plan.begin[1].vm.as_deref(), Some("vm-pool-y"));
    assert_eq!(
        serde_json::to_value(&plan.begin[1].step).unwrap(),
        json!({ "vm": { "machine": "pool-y", "do": "kill" } })
    );
    let planned = serde_json::to_value(&plan.begin[1].planned).unwrap();
    assert_eq!(
        (&planned["deferred"]["among"], &planned["deferred"]["nth"]),
        (&json!("pool-*"), &json!(1))
    );
    assert_eq!(plan.commands, ["fakecloud vm kill pool-x", "fakecloud vm kill pool-y"]);
}

#[test]
fn a_time_ends_a_fault_in_the_steps_and_in_the_command() {
    let plan = decide(&request("kubelet.partition", &["m-1"], Some(45)), &fleet(), 1).unwrap();
    assert_eq!(
        serde_json::to_value(&plan.end[0].step).unwrap(),
        json!({ "kubelet": { "machine": "m-1", "do": "reconnect" } })
    );
    assert_eq!(
        plan.commands,
        ["drydock nodes break m-1 --with partitioned --lasts 45s"]
    );
    assert!(plan.preview().plan.contains("- wait: 45s"), "{:?}", plan.preview());
}

#[test]
fn a_fault_with_values_has_them_in_the_step_and_in_the_command() {
    let plan = decide(&request("kubelet.clockBehind", &["m-1"], Some(45)), &fleet(), 1).unwrap();
    let steps = [&plan.begin[0].step, &plan.end[0].step].map(|step| serde_json::to_value(step).unwrap());
    assert_eq!(
        steps,
        [
            json!({ "kubelet": { "machine": "m-1", "do": { "clockBehind": "5m0s" } } }),
            json!({ "kubelet": { "machine": "m-1", "do": { "end": "clock" } } }),
        ]
    );
    assert_eq!(
        plan.commands,
        ["drydock nodes break m-1 --with clockSkew --by -5m --lasts 45s"]
    );
}

#[rstest]
#[case::unknown(request("vm.melt", &["m-1"], None), "fault: there is no fault \"vm.melt\"")]
#[case::no_target(request("vm.kill", &[], None), "targets: name at least one machine")]
#[case::no_match(request("vm.kill", &["m-1", "x*"], None), "targets: no machine matches \"x*\" and has a VM")]
#[case::no_zone(request("zone.api", &["z9"], None), "targets: no zone matches \"z9\"")]
#[case::foreign_target(request("api.slow", &["m-1"], None), "targets: api.slow acts on no machine")]
#[case::too_short(request("vm.kill", &["m-1"], Some(0)), "seconds: write 1 to 86400")]
#[case::too_long(request("vm.kill", &["m-1"], Some(86_401)), "seconds: write 1 to 86400")]
#[case::no_time(request("process.pause", &[], None), "seconds: write for how long: 1 to 86400")]
#[case::a_moment(request("vm.reboot", &["m-1"], Some(5)), "seconds: this fault is a moment")]
#[case::foreign_code(FaultRequest { code: Some("Internal".to_owned()), ..request("api.slow", &[], None) }, "code: only")]
#[case::no_code(FaultRequest { code: None, ..request("cloud.code", &[], None) }, "code: write a machine code")]
#[case::bad_code(FaultRequest { code: Some("Nonsense".to_owned()), ..request("cloud.code", &[], None) }, "")]
fn an_invalid_request_names_the_field(#[case] request: FaultRequest, #[case] expected: &str) {
    let error = decide(&request, &fleet(), 1).unwrap_err().to_string();
    assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
}

#[rstest]
#[case("m-1", "m-1", true)]
#[case("m-1", "m-10", false)]
#[case("*", "", true)]
#[case("m-*", "m-1", true)]
#[case("*-1", "m-1", true)]
#[case("m*1", "m1", true)]
#[case("m*11", "m1", false)]
#[case("a*b*c", "a-b-c", true)]
#[case("a*b*c", "a-c-b", false)]
fn a_pattern_matches_whole_names(#[case] pattern: &str, #[case] name: &str, #[case] matches: bool) {
    assert_eq!(glob(pattern, name), matches);
}
