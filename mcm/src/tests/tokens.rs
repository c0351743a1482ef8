//! Bootstrap tokens: each machine joins with its own, and no machine's end takes another's.

use super::*;

/// The Secret of the only token that there is: its path and content.
fn only_token(stage: &Stage) -> (String, Value) {
    let [secret] = &stage.server.all(TOKENS)[..] else {
        panic!("{:#?}", stage.server.all(TOKENS));
    };
    (
        format!("{TOKENS}{}", secret["metadata"]["name"].as_str().unwrap()),
        secret.clone(),
    )
}

/// The text of a Secret's key.
fn text(secret: &Value, key: &str) -> String {
    let bytes: ByteString = serde_json::from_value(secret["data"][key].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

/// That Secret as another machine's.
fn of_another_machine(mut secret: Value) -> Value {
    secret["data"]["description"] = json!(ByteString(b"A bootstrap token for machine \"other\".".to_vec()));
    secret
}

#[tokio::test(start_paused = true)]
async fn machines_whose_names_end_alike_join_with_tokens_of_their_own() {
    let stage = Stage::new();
    let machines = ["m-1", "m-10", "m-12345", "n-12345"];
    stage
        .run(async {
            for machine in machines {
                stage.create_machine_named(machine);
            }
            stage.wait(30).await;
            let secrets = stage.server.all(TOKENS);
            let descriptions: Vec<String> = secrets.iter().map(|secret| text(secret, "description")).collect();
            assert_eq!(secrets.len(), machines.len(), "{descriptions:?}");
            stage.register_node("True");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Running");
            let left = stage.server.all(TOKENS);
            assert_eq!(left.len(), machines.len() - 1, "{left:#?}");
            assert!(
                left.iter()
                    .all(|secret| !text(secret, "description").contains("default/m-12345"))
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_machine_is_not_taken_over() {
    // In one world the machine shows what its token is called; in the next one another machine has it already.
    let before = Stage::new();
    let mut token = None;
    before
        .run(async {
            before.create_machine();
            before.wait(30).await;
            token = Some(only_token(&before));
        })
        .await;
    let (path, secret) = token.unwrap();
    let stage = Stage::new();
    stage
        .run(async {
            // First the machine, which then has the same uid as in the other world.
            stage.create_machine();
            stage.server.put(&path, of_another_machine(secret));
            stage.wait(60).await;
            assert_eq!(stage.cloud.vms(), 0, "no VM boots with another's token");

            // The other machine has joined.
            stage.server.remove(&path);
            stage.wait(60).await;
            assert_eq!(stage.cloud.vms(), 1);
            let (_, secret) = only_token(&stage);
            assert!(text(&secret, "description").contains("default/m-12345"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_machine_is_not_deleted() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            let (path, secret) = only_token(&stage);
            stage.server.put(&path, of_another_machine(secret));
            stage.register_node("True");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Running");
            assert_eq!(
                text(&only_token(&stage).1, "description"),
                "A bootstrap token for machine \"other\"."
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ends_before_its_machine_may_join_is_made_anew() {
    let stage = Stage::new();
    stage.cloud.fail_with(&[Code::Internal; 20]);
    let ends = |secret: &Value| text(secret, "expiration").parse::<Timestamp>().unwrap();
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            let (_, first) = only_token(&stage);

            // A person gives the machine more time than the token has.
            let mut machine = stage.server.get(MACHINE).unwrap();
            machine["spec"]["creationTimeout"] = json!("50m0s");
            stage.server.put(MACHINE, machine);
            stage.wait(400).await;
            let (_, second) = only_token(&stage);
            let longer = ends(&second).duration_since(ends(&first)).as_mins();
            // By the 30 minutes, and by the three after which the creation is repeated.
            assert!((30..=34).contains(&longer), "{longer}");
            assert_ne!(text(&first, "token-secret"), text(&second, "token-secret"));

            // It is good enough for all later attempts.
            stage.wait(400).await;
            assert_eq!(only_token(&stage).1, second);
        })
        .await;
}
