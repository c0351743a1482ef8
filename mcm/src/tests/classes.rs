//! The finalizers of classes, in the whole process.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_forbidden_write_of_a_class_is_retried_with_backoff() {
    let stage = Stage::new();
    stage.server.forbid(CLASS);
    stage
        .run(async {
            stage.create_machine();
            stage.wait(60).await;
            let attempts = stage
                .writes()
                .into_iter()
                .filter(|write| write.ends_with(CLASS))
                .count();
            assert!((10..=30).contains(&attempts), "{attempts} attempts in a minute");
        })
        .await;
}
