//! Tokens in Secrets live as long as the Secret and its account.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewStatus};
use k8s_openapi::api::core::v1::{ObjectReference, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::World;

const UID: &str = "kubernetes.io/service-account.uid";

fn secret(name: &str, account: &str) -> Value {
    json!({ "metadata": { "name": name, "annotations": { "kubernetes.io/service-account.name": account } },
        "type": "kubernetes.io/service-account-token" })
}

fn account(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

async fn review(world: &World, token: &str) -> TokenReviewStatus {
    let reviews: Api<TokenReview> = Api::all(world.client.clone());
    let review = serde_json::from_value(json!({ "spec": { "token": token } })).unwrap();
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap()
}

/// Waits for the token of a Secret.
async fn token(world: &World, name: &str) -> String {
    let secrets = world.api::<Secret>();
    world
        .until("a token", async || {
            let data = secrets.get(name).await.unwrap().data?;
            Some(String::from_utf8(data.get("token")?.0.clone()).unwrap())
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_secret_gets_a_token_that_dies_with_it() {
    let world = World::start().await;
    world.create::<ServiceAccount>(account("builder")).await;
    world.create::<Secret>(secret("tok", "builder")).await;
    let token = token(&world, "tok").await;
    let secrets = world.api::<Secret>();
    let (stored, builder) =
        (secrets.get("tok").await.unwrap(), world.api::<ServiceAccount>().get("builder").await.unwrap());
    let data = stored.data.unwrap();
    assert_eq!(data["ca.crt"].0, b"the bundle");
    assert_eq!(data["namespace"].0, b"default");
    let uid = builder.metadata.uid;
    assert_eq!(stored.metadata.annotations.unwrap().get(UID), uid.as_ref());

    let good = review(&world, &token).await;
    assert_eq!(good.authenticated, Some(true));
    let user = good.user.unwrap();
    assert_eq!((user.username.as_deref(), &user.uid), (Some("system:serviceaccount:default:builder"), &uid));
    assert_eq!(user.extra, None);
    let labels = secrets.get("tok").await.unwrap().metadata.labels.unwrap();
    assert!(labels.contains_key("kubernetes.io/legacy-token-last-used"), "{labels:?}");

    world.delete::<Secret>("tok", &DeleteParams::default()).await;
    assert_eq!(review(&world, &token).await.authenticated, None);
    // The same name again is another token: it names no uid of the Secret, but the text must be the Secret's.
    world.create::<Secret>(secret("tok", "builder")).await;
    self::token(&world, "tok").await;
    assert_eq!(review(&world, &token).await.authenticated, None);
}

#[tokio::test(start_paused = true)]
async fn secrets_go_with_their_account() {
    let world = World::start().await;
    world.create::<ServiceAccount>(account("builder")).await;
    world.create::<Secret>(secret("old", "builder")).await;
    token(&world, "old").await;
    world.delete::<ServiceAccount>("builder", &DeleteParams::default()).await;
    world.create::<ServiceAccount>(account("builder")).await;
    let secrets = world.api::<Secret>();
    let gone = async |name: &str| secrets.get_opt(name).await.unwrap().is_none().then_some(());
    world.until("the first account's is gone", async || gone("old").await).await;
    world.create::<Secret>(secret("nobodys", "nobody")).await;
    world.until("one of an account that never was is gone", async || gone("nobodys").await).await;
    world.create::<Secret>(secret("new", "builder")).await;
    token(&world, "new").await;
}

#[tokio::test(start_paused = true)]
async fn an_account_forgets_its_deleted_secret_and_no_other() {
    let world = World::start().await;
    let mut builder = account("builder");
    builder["secrets"] = json!([{ "name": "other" }, { "name": "tok" }]);
    world.create::<ServiceAccount>(builder).await;
    world.create::<Secret>(secret("tok", "builder")).await;
    token(&world, "tok").await;
    world.delete::<Secret>("tok", &DeleteParams::default()).await;
    let accounts = world.api::<ServiceAccount>();
    let other = ObjectReference { name: Some("other".into()), ..ObjectReference::default() };
    world
        .until("one reference", async || {
            (accounts.get("builder").await.unwrap().secrets? == [other.clone()]).then_some(())
        })
        .await;
}
