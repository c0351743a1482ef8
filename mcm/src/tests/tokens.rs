//! Bootstrap tokens: each machine joins with its own token, and deletes only its own.

use super::*;

/// The path and content of the only token's Secret.
fn only_token(stage: &Stage) -> (String, Value) {
    let [secret] = &stage.server.all(TOKENS)[..] else {
        panic!("{:#?}", stage.server.all(TOKENS));
    };
    (
        format!("{TOKENS}{}", secret["metadata"]["name"].as_str().unwrap()),
        secret.clone(),
    )
}

/// The value of a Secret's key as text.
fn text(secret: &Value, key: &str) -> String {
    let bytes: ByteString = serde_json::from_value(secret["data"][key].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

/// The Secret with the description of another machine.
fn of_another_machine(mut secret: Value) -> Value {
    secret["data"]["description"] = json!(ByteString(b"A bootstrap token for machine \"other\".".to_vec()));
    secret
}

#[tokio::test(start_paused = true)]
async fn machines_with_similar_names_have_different_tokens() {
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
            let remaining = stage.server.all(TOKENS);
            assert_eq!(remaining.len(), machines.len() - 1, "{remaining:#?}");
            assert!(
                remaining
                    .iter()
                    .all(|secret| !text(secret, "description").contains("default/m-12345"))
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_machine_is_not_used() {
    // The first world shows the name of the machine's token; in the second one another machine already has it.
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
            // The machine is created first, so that it has the same uid as in the first world.
            stage.create_machine();
            stage.server.put(&path, of_another_machine(secret));
            stage.wait(60).await;
            assert_eq!(stage.cloud.vms(), 0, "no VM boots with the token of another machine");

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
async fn a_token_that_expires_before_the_creation_timeout_is_replaced() {
    let stage = Stage::new();
    stage.cloud.fail_with(&[Code::Internal; 20]);
    let expiration = |secret: &Value| text(secret, "expiration").parse::<Timestamp>().unwrap();
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            let (_, first) = only_token(&stage);

            // A user raises the creation timeout beyond the token's expiration.
            let mut machine = stage.server.get(MACHINE).unwrap();
            machine["spec"]["creationTimeout"] = json!("50m0s");
            stage.server.put(MACHINE, machine);
            stage.wait(400).await;
            let (_, second) = only_token(&stage);
            let longer = expiration(&second).duration_since(expiration(&first)).as_mins();
            // 30 minutes, plus the three minutes before the retry of the creation.
            assert!((30..=34).contains(&longer), "{longer}");
            assert_ne!(text(&first, "token-secret"), text(&second, "token-secret"));

            // Later attempts use the same token.
            stage.wait(400).await;
            assert_eq!(only_token(&stage).1, second);
        })
        .await;
}
