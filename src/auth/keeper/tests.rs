//! The keeper on a real folder, with the service in memory and a paused clock.

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::PathBuf;

use oauth2::{PkceCodeVerifier, RefreshToken};
use serde_json::{Value, json};

use super::*;
use crate::auth::endpoint::{Answer, PollForm, Unanswered};
use crate::auth::jwt::tests::token;
use crate::disk::Lock;

const DAY: i64 = 24 * 3600;
/// When the tests take place by the service's clock, in seconds.
const NOW: i64 = 1_700_000_000;
const ME: &str = "auth0|user_me";

thread_local! {
    /// When this test began: the wall clocks go with the paused one.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Seconds by which somebody has set the clock of this machine, or for which the machine slept.
    static SET: Cell<i64> = const { Cell::new(0) };
}

fn wall_as_set() -> Wall {
    Wall(wall_right().0 + SET.get() * 1000)
}

fn wall_right() -> Wall {
    let since = BEGUN.get().map_or(Duration::ZERO, |begun| begun.elapsed());
    Wall(NOW * 1000 + i64::try_from(since.as_millis()).unwrap())
}

fn wall_ten_years_ahead() -> Wall {
    Wall(wall_right().0 + 3650 * DAY * 1000)
}

/// So that a fresh token seems to become a week old within the hour.
fn wall_almost_a_week_ahead() -> Wall {
    Wall(wall_right().0 + (7 * DAY - 1800) * 1000)
}

/// A session token, `n` to tell them apart, issued so many seconds before `NOW` with the usual life.
fn session(n: u32, age: i64) -> String {
    token(&json!({"sub": ME, "n": n, "time": (NOW - age).to_string(), "exp": NOW - age + 60 * DAY}))
}

/// One renewal's answer.
#[derive(Clone)]
enum Reply {
    /// Status and body, after a second.
    Status(u16, String),
    Network,
    Never,
}

/// The service: answers renewals from a list (the last one again and again), or rotates refresh tokens as a strict one does.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<Inner>>);

#[derive(Default)]
enum Family {
    #[default]
    NotRotating,
    Lives(String),
    Revoked,
}

#[derive(Default)]
struct Inner {
    replies: VecDeque<Reply>,
    /// The only refresh token that works, where it rotates. One that comes twice ends the family.
    family: Family,
    asked: Vec<String>,
    polls: VecDeque<Reply>,
    date: Option<Wall>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

impl Service {
    fn renewing(replies: impl IntoIterator<Item = Reply>) -> Self {
        let service = Self::default();
        lock(&service.0).replies = replies.into_iter().collect();
        service
    }

    fn asked(&self) -> Vec<String> {
        lock(&self.0).asked.clone()
    }
}

fn answer(reply: Reply, date: Option<Wall>) -> Task<Result<Answer, Unanswered>> {
    Box::pin(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        match reply {
            Reply::Status(status, body) => Ok(Answer { status, body: body.into_bytes(), retry_after: None, date }),
            Reply::Network => Err(Unanswered("connection reset".into())),
            Reply::Never => std::future::pending().await,
        }
    })
}

impl Endpoint for Service {
    fn poll(&self, _: PollForm, _: &str, _: &PkceCodeVerifier) -> Task<Result<Answer, Unanswered>> {
        let mut inner = lock(&self.0);
        let reply = inner.polls.pop_front().unwrap_or_else(|| Reply::Status(404, "Not found".into()));
        answer(reply, inner.date)
    }

    fn exchange(&self, refresh: &RefreshToken) -> Task<Result<Answer, Unanswered>> {
        let mut inner = lock(&self.0);
        inner.asked.push(refresh.secret().clone());
        let n = u32::try_from(inner.asked.len()).unwrap();
        if !matches!(inner.family, Family::NotRotating) {
            let good = matches!(&inner.family, Family::Lives(current) if current == refresh.secret());
            let next = format!("r{n}");
            let reply = if good { ok(&session(n, 0), Some(&next)) } else { dead() };
            inner.family = if good { Family::Lives(next) } else { Family::Revoked };
            return answer(reply, inner.date);
        }
        let reply = if inner.replies.len() > 1 { inner.replies.pop_front() } else { inner.replies.front().cloned() };
        answer(reply.expect("the service wasn't to be asked"), inner.date)
    }
}

fn ok(access: &str, refresh: Option<&str>) -> Reply {
    Reply::Status(200, json!({"access_token": access, "refresh_token": refresh, "shouldLogout": false}).to_string())
}

fn dead() -> Reply {
    Reply::Status(200, r#"{"access_token":"","id_token":"","shouldLogout":true}"#.into())
}

struct Bench {
    _scratch: tempfile::TempDir,
    folder: PathBuf,
    service: Service,
    wall: WallClock,
}

impl Bench {
    fn new(service: Service) -> Self {
        BEGUN.set(Some(Instant::now()));
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("data");
        crate::disk::private_folder(&folder).unwrap();
        Self { _scratch: scratch, folder, service, wall: wall_right }
    }

    fn signed_in(service: Service, access: &str, refresh: &str) -> Self {
        let bench = Self::new(service);
        bench.write(&json!({"accessToken": access, "refreshToken": refresh, "authId": ME}));
        bench
    }

    fn keeper(&self) -> Keeper {
        let website = Address::parse("https://cursor.com", false).unwrap();
        Keeper::with_wall(&self.folder, website, Arc::new(self.service.clone()), self.wall)
    }

    fn file(&self) -> PathBuf {
        self.folder.join("native-auth.json")
    }

    fn write(&self, content: &Value) {
        std::fs::write(self.file(), content.to_string()).unwrap();
    }

    fn read(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.file()).unwrap()).unwrap()
    }
}

fn secret(outcome: Result<AccessToken, TokenError>) -> String {
    outcome.unwrap().into_secret()
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_good_token_is_used_as_it_is() {
    let good = session(0, DAY);
    let bench = Bench::signed_in(Service::default(), &good, "r");
    assert_eq!(secret(bench.keeper().access_token().await), good);
    let Standing::SignedIn { subject, auth_id } = bench.keeper().standing() else { panic!() };
    assert_eq!((subject.as_str(), auth_id.as_deref()), (ME, Some(ME)));
}

#[tokio::test(start_paused = true)]
async fn a_week_old_token_is_renewed_once_for_a_hundred_callers() {
    let bench = Bench::signed_in(Service::renewing([ok(&session(1, 0), None)]), &session(0, 8 * DAY), "r");
    let keeper = bench.keeper();
    let all = futures_util::future::join_all((0..100).map(|_| keeper.access_token())).await;
    assert!(all.into_iter().all(|outcome| secret(outcome) == session(1, 0)));
    assert_eq!(bench.service.asked(), ["r"]);
    let file = bench.read();
    assert_eq!(
        (&file["accessToken"], &file["refreshToken"], &file["authId"]),
        (&json!(session(1, 0)), &json!("r"), &json!(ME))
    );
    assert_eq!(secret(keeper.access_token().await), session(1, 0));
    assert_eq!(bench.service.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a10_two_processes_share_one_renewal() {
    let service = Service::default();
    lock(&service.0).family = Family::Lives("r0".into());
    // Ended: both need another one before they can go on.
    let bench = Bench::signed_in(service, &session(0, 61 * DAY), "r0");
    let (one, two) = (bench.keeper(), bench.keeper());
    let (first, second) = tokio::join!(one.access_token(), two.access_token());
    assert_eq!((secret(first), secret(second)), (session(1, 0), session(1, 0)));
    assert_eq!(bench.service.asked(), ["r0"]);

    // The same by refusals: both are told that the token does no more.
    after(7200).await;
    let rejected = || AccessToken::new(session(1, 0));
    let (first, second) = tokio::join!(one.renewed(rejected()), two.renewed(rejected()));
    assert_eq!((secret(first), secret(second)), (session(2, 0), session(2, 0)));
    assert_eq!(bench.service.asked(), ["r0", "r1"]);
    assert_eq!(secret(one.renewed(rejected()).await), session(2, 0), "a late 401 of the old token");
    assert_eq!(bench.service.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_renewal_uses_what_another_process_stored_meanwhile() {
    let bench = Bench::signed_in(Service::renewing([dead()]), &session(0, 61 * DAY), "r0");
    let keeper = bench.keeper();
    let renewal = keeper.access_token();
    // Another program that doesn't know our lock writes while we are asking.
    let (outcome, ()) = tokio::join!(renewal, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.write(&json!({"accessToken": session(7, 0), "refreshToken": "r7"}));
    });
    assert_eq!(secret(outcome), session(7, 0));
    assert_eq!(bench.service.asked(), ["r0"]);
    assert!(matches!(keeper.standing(), Standing::SignedIn { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_is_asked_once_and_never_again() {
    for reply in [dead(), Reply::Status(401, String::new()), Reply::Status(400, r#"{"error":"invalid_grant"}"#.into())]
    {
        let bench = Bench::signed_in(Service::renewing([reply]), &session(0, 61 * DAY), "r");
        let before = bench.read();
        let keeper = bench.keeper();
        for _ in 0..5 {
            assert!(matches!(keeper.access_token().await, Err(TokenError::SignInAgain(_))));
            assert!(matches!(
                keeper.renewed(AccessToken::new(session(0, 61 * DAY))).await,
                Err(TokenError::SignInAgain(_))
            ));
            after(4000).await;
        }
        assert_eq!(bench.service.asked().len(), 1);
        let Standing::SignInAgain { subject, .. } = keeper.standing() else { panic!() };
        assert_eq!(subject.as_deref(), Some(ME), "the records of the account stay");
        assert_eq!(bench.read(), before, "the file is left as it was");
        // A new sign-in, here by another process, ends it.
        bench.write(&json!({"accessToken": session(9, 0), "refreshToken": "r9"}));
        assert!(matches!(keeper.standing(), Standing::SignedIn { .. }));
        assert_eq!(secret(keeper.access_token().await), session(9, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn passing_trouble_backs_off_and_a_token_that_still_works_is_used() {
    let due = session(0, 8 * DAY);
    let bench = Bench::signed_in(Service::renewing([Reply::Network]), &due, "r");
    let keeper = bench.keeper();
    for _ in 0..3600 {
        assert_eq!(secret(keeper.access_token().await), due);
        after(1).await;
    }
    // 30, 60, 120, 240, 480, 900, 900 … seconds apart.
    let asked = bench.service.asked().len();
    assert!((6..=9).contains(&asked), "{asked}");

    let bench = Bench::signed_in(
        Service::renewing([Reply::Status(500, String::new()), ok(&session(1, 0), None)]),
        &session(0, 61 * DAY),
        "r",
    );
    let keeper = bench.keeper();
    let Err(TokenError::Transient { retry_after: Some(wait), .. }) = keeper.access_token().await else { panic!() };
    assert_eq!(wait, Duration::from_secs(1));
    assert!(matches!(keeper.standing(), Standing::SignedIn { .. }), "no trouble of the network signs out");
    after(1).await;
    assert_eq!(secret(keeper.access_token().await), session(1, 0));
}

#[tokio::test(start_paused = true)]
async fn where_no_token_works_a_renewal_is_tried_again_after_a_second_and_then_ever_more_slowly() {
    let unavailable = Reply::Status(503, String::new());
    let bench =
        Bench::signed_in(Service::renewing([unavailable.clone(), ok(&session(1, 0), None)]), &session(0, 0), "r");
    let keeper = bench.keeper();
    let rejected = || AccessToken::new(session(0, 0));
    let Err(TokenError::Transient { retry_after: Some(wait), .. }) = keeper.renewed(rejected()).await else { panic!() };
    assert_eq!(wait, Duration::from_secs(1));
    assert!(matches!(keeper.renewed(rejected()).await, Err(TokenError::Transient { .. })));
    assert_eq!(bench.service.asked().len(), 1, "not before that");
    after(1).await;
    assert_eq!(secret(keeper.renewed(rejected()).await), session(1, 0));

    let bench = Bench::signed_in(Service::renewing([unavailable]), &session(0, 0), "r");
    let keeper = bench.keeper();
    for _ in 0..3600 {
        assert!(matches!(keeper.renewed(rejected()).await, Err(TokenError::Transient { .. })));
        after(1).await;
    }
    // 1, 2, 4 … 512, 900, 900 … seconds apart.
    let asked = bench.service.asked().len();
    assert!((11..=14).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn only_a_repeated_403_asks_for_a_new_sign_in() {
    let refusal = |body: &str| Reply::Status(403, body.to_owned());
    let service =
        Service::renewing([refusal("<html>"), refusal("{}"), refusal("<html>"), refusal("{}"), refusal("{}")]);
    let bench = Bench::signed_in(service, &session(0, 61 * DAY), "r");
    let keeper = bench.keeper();
    for _ in 0..4 {
        assert!(matches!(keeper.access_token().await, Err(TokenError::Transient { .. })));
        assert!(matches!(keeper.standing(), Standing::SignedIn { .. }));
        after(1000).await;
    }
    assert!(matches!(keeper.access_token().await, Err(TokenError::SignInAgain(_))));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_renews_once() {
    for date in [None, Some(wall_right())] {
        let service = Service::renewing([ok(&session(1, 0), None), ok(&session(2, 0), None)]);
        lock(&service.0).date = date;
        let mut bench = Bench::signed_in(service, &session(0, 0), "r");
        bench.wall = wall_ten_years_ahead;
        let keeper = bench.keeper();
        for _ in 0..48 {
            assert_eq!(secret(keeper.access_token().await), session(1, 0));
            after(3600).await;
        }
        // Another process on the same folder and with the same clock doesn't begin it anew.
        assert_eq!(secret(bench.keeper().access_token().await), session(1, 0));
        assert_eq!(bench.service.asked().len(), 1);
    }
    // Heard of beforehand, not even once.
    let mut bench = Bench::signed_in(Service::default(), &session(0, 0), "r");
    bench.wall = wall_ten_years_ahead;
    let keeper = bench.keeper();
    keeper.heard_date(wall_right());
    assert_eq!(secret(keeper.access_token().await), session(0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_almost_a_week_ahead_renews_once_a_week() {
    let service = Service::renewing((1..50).map(|n| ok(&session(n, 0), None)));
    let mut bench = Bench::signed_in(service, &session(0, 0), "r");
    bench.wall = wall_almost_a_week_ahead;
    let keeper = bench.keeper();
    for _ in 0..6 * 24 {
        keeper.access_token().await.unwrap();
        after(3600).await;
    }
    assert_eq!(bench.service.asked().len(), 1);
}

/// Tokens that live an hour, the `n`th issued so many seconds after `NOW`.
fn of_an_hour(n: u32, at: i64) -> String {
    token(&json!({"sub": ME, "n": n, "time": NOW + at, "exp": NOW + at + 3600}))
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ended_while_the_machine_slept_is_renewed_once_and_never_given_out() {
    // The monotonic clock stands still meanwhile; a clock that was set forward looks the same.
    let service = Service::renewing([ok(&of_an_hour(1, 0), None), ok(&of_an_hour(2, 8 * 3600), None)]);
    let mut bench = Bench::signed_in(service, &of_an_hour(0, -3600), "r");
    bench.wall = wall_as_set;
    let keeper = bench.keeper();
    assert_eq!(secret(keeper.access_token().await), of_an_hour(1, 0));
    after(60).await;
    SET.set(8 * 3600);
    let all = futures_util::future::join_all((0..100).map(|_| keeper.access_token())).await;
    assert!(all.into_iter().all(|outcome| secret(outcome) == of_an_hour(2, 8 * 3600)));
    for _ in 0..50 {
        after(60).await;
        assert_eq!(secret(keeper.access_token().await), of_an_hour(2, 8 * 3600));
    }
    assert_eq!(bench.service.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_by_hours_neither_renews_nor_forgets_to() {
    let service = Service::renewing([ok(&of_an_hour(1, 0), None), ok(&of_an_hour(2, 3600), None)]);
    let mut bench = Bench::signed_in(service, &of_an_hour(0, -3600), "r");
    bench.wall = wall_as_set;
    let keeper = bench.keeper();
    assert_eq!(secret(keeper.access_token().await), of_an_hour(1, 0));
    SET.set(-5 * 3600);
    for _ in 0..54 {
        after(60).await;
        assert_eq!(secret(keeper.access_token().await), of_an_hour(1, 0));
    }
    // Due by how long we have had it, whatever the clock shows.
    after(120).await;
    assert_eq!(secret(keeper.access_token().await), of_an_hour(2, 3600));
    assert_eq!(bench.service.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_with_a_short_life_is_renewed_before_it_ends() {
    let short = |n: u32, at: i64| token(&json!({"sub": ME, "n": n, "time": NOW + at, "exp": NOW + at + 100}));
    let service = Service::renewing((1..50).map(|n| ok(&short(n, 80 * i64::from(n - 1)), None)));
    let bench = Bench::signed_in(service, &short(0, -100), "r");
    let keeper = bench.keeper();
    for _ in 0..800 {
        keeper.access_token().await.unwrap();
        after(1).await;
    }
    let asked = bench.service.asked().len();
    assert!((9..=11).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_token_revoked_right_after_it_came_is_replaced_at_once() {
    let bench =
        Bench::signed_in(Service::renewing([ok(&session(1, 0), None), ok(&session(2, 0), None)]), &session(0, 0), "r");
    let keeper = bench.keeper();
    let first = keeper.renewed(AccessToken::new(session(0, 0))).await.unwrap();
    assert_eq!(secret(keeper.renewed(first).await), session(2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_refuses_what_it_gives_doesnt_make_a_loop() {
    let replies = (1..200).map(|n| ok(&session(n, 0), None));
    let bench = Bench::signed_in(Service::renewing(replies), &session(0, 0), "r");
    let keeper = bench.keeper();
    let mut token = AccessToken::new(session(0, 0));
    for _ in 0..3600 {
        match keeper.renewed(token.clone()).await {
            Ok(renewed) => token = renewed,
            Err(TokenError::Transient { retry_after: Some(_), .. }) => {}
            Err(other) => panic!("{other}"),
        }
        after(1).await;
    }
    let asked = bench.service.asked().len();
    assert!((3..=9).contains(&asked), "{asked} renewals in an hour");
}

#[tokio::test(start_paused = true)]
async fn the_longer_token_is_adopted_and_the_old_one_kept_until_it_has_worked() {
    let refresh = session(100, 8 * DAY);
    let (first, second) = (session(1, 0), session(2, -8 * DAY));
    let service = Service::renewing([ok(&first, None), ok(&second, None)]);
    let bench = Bench::signed_in(service, &session(0, 8 * DAY), &refresh);
    let keeper = bench.keeper();
    assert_eq!(secret(keeper.access_token().await), first);
    let file = bench.read();
    assert_eq!((&file["refreshToken"], &file["previousRefreshToken"]), (&json!(first), &json!(refresh)));
    after(8 * 24 * 3600).await;
    assert_eq!(secret(keeper.access_token().await), second);
    assert_eq!(bench.service.asked(), [refresh.clone(), first.clone()]);
    assert_eq!(bench.read()["previousRefreshToken"], json!(first), "the new one has worked");
}

#[tokio::test(start_paused = true)]
async fn an_adopted_token_that_is_refused_gives_way_to_the_one_before() {
    let bench = Bench::new(Service::renewing([dead(), ok(&session(5, 0), None)]));
    let adopted = session(1, 8 * DAY);
    bench.write(&json!({"accessToken": adopted, "refreshToken": adopted, "previousRefreshToken": session(9, 9 * DAY)}));
    let keeper = bench.keeper();
    assert_eq!(secret(keeper.access_token().await), session(5, 0));
    assert_eq!(bench.service.asked(), [adopted, session(9, 9 * DAY)]);
    let file = bench.read();
    assert_eq!((&file["refreshToken"], &file["previousRefreshToken"]), (&json!(session(9, 9 * DAY)), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn another_accounts_token_never_slips_in() {
    let theirs = token(&json!({"sub": "auth0|other", "exp": NOW + 60 * DAY}));
    for access in [theirs.as_str(), "opaque"] {
        let bench = Bench::signed_in(Service::renewing([ok(access, Some("r2"))]), &session(0, 61 * DAY), "r");
        let before = bench.read();
        let keeper = bench.keeper();
        assert!(matches!(keeper.access_token().await, Err(TokenError::SignInAgain(_))));
        assert_eq!(bench.read(), before);
        assert!(matches!(keeper.standing(), Standing::SignInAgain { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sign_out_wins_over_a_renewal_in_flight() {
    let bench = Bench::signed_in(Service::renewing([ok(&session(1, 0), Some("r2"))]), &session(0, 8 * DAY), "r");
    let keeper = bench.keeper();
    let (outcome, ()) = tokio::join!(keeper.access_token(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        keeper.sign_out().unwrap();
        assert_eq!(keeper.standing(), Standing::SignedOut);
    });
    assert!(matches!(outcome, Err(TokenError::SignedOut)));
    assert!(!bench.file().exists());
    assert!(matches!(keeper.access_token().await, Err(TokenError::SignedOut)));

    // The same by another process.
    let bench = Bench::signed_in(Service::renewing([ok(&session(1, 0), Some("r2"))]), &session(0, 8 * DAY), "r");
    let (keeper, other) = (bench.keeper(), bench.keeper());
    let (outcome, ()) = tokio::join!(keeper.access_token(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        other.sign_out().unwrap();
    });
    assert!(matches!(outcome, Err(TokenError::SignedOut)));
    assert!(!bench.file().exists());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_doesnt_lose_the_renewal() {
    let bench = Bench::signed_in(Service::renewing([ok(&session(1, 0), Some("r2"))]), &session(0, 8 * DAY), "r");
    let keeper = bench.keeper();
    let gone = tokio::time::timeout(Duration::from_millis(100), keeper.access_token()).await;
    assert!(gone.is_err());
    keeper.close().await;
    assert_eq!(bench.read()["refreshToken"], json!("r2"));
    assert_eq!(secret(keeper.access_token().await), session(1, 0));
    assert_eq!(bench.service.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_cant_be_written_is_used_from_memory_until_it_can() {
    let bench = Bench::signed_in(
        Service::renewing([ok(&session(1, 0), Some("r2")), ok(&session(2, 0), None)]),
        &session(0, 61 * DAY),
        "r",
    );
    let keeper = bench.keeper();
    // Something that holds the writers' lock for long.
    let held = Lock::try_acquire(&bench.folder.join("native-auth.write.lock")).unwrap().unwrap();
    assert_eq!(secret(keeper.access_token().await), session(1, 0));
    assert_eq!(bench.read()["refreshToken"], json!("r"));
    drop(held);
    assert!(matches!(keeper.standing(), Standing::SignedIn { .. }));
    assert_eq!(bench.read()["refreshToken"], json!("r2"), "written as soon as it can be");
    after(8 * 24 * 3600).await;
    assert_eq!(secret(keeper.access_token().await), session(2, 0));
    assert_eq!(bench.service.asked(), ["r", "r2"]);
}

#[tokio::test(start_paused = true)]
async fn another_process_that_hangs_holds_up_only_what_must_be_renewed() {
    let bench = Bench::signed_in(Service::default(), &session(0, 8 * DAY), "r");
    let keeper = bench.keeper();
    let _held = Lock::try_acquire(&bench.folder.join("native-auth.lock")).unwrap().unwrap();
    assert_eq!(secret(keeper.access_token().await), session(0, 8 * DAY));
    bench.write(&json!({"accessToken": session(0, 61 * DAY), "refreshToken": "r"}));
    assert!(matches!(keeper.access_token().await, Err(TokenError::Transient { .. })));
}

#[tokio::test(start_paused = true)]
async fn without_a_refresh_token_it_works_until_it_is_refused() {
    let bench = Bench::new(Service::default());
    // Ended by our clock; the service's word counts.
    let access = session(0, 61 * DAY);
    bench.write(&json!({"accessToken": access}));
    let keeper = bench.keeper();
    assert_eq!(secret(keeper.access_token().await), access);
    assert!(matches!(keeper.standing(), Standing::SignedIn { .. }));
    assert!(matches!(keeper.renewed(AccessToken::new(access)).await, Err(TokenError::SignInAgain(_))));
    assert!(matches!(keeper.standing(), Standing::SignInAgain { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_file_is_seen_at_once() {
    let bench = Bench::new(Service::default());
    let keeper = bench.keeper();
    assert_eq!(keeper.standing(), Standing::SignedOut);
    bench.write(&json!({"accessToken": session(0, 0), "refreshToken": "r"}));
    let Standing::SignedIn { subject, .. } = keeper.standing() else { panic!() };
    assert_eq!(subject, ME);
    std::fs::write(bench.file(), "{").unwrap();
    let Standing::SignInAgain { subject, .. } = keeper.standing() else { panic!() };
    assert_eq!(subject.as_deref(), Some(ME));
    assert!(matches!(keeper.access_token().await, Err(TokenError::SignInAgain(_))));
    assert_eq!(std::fs::read_to_string(bench.file()).unwrap(), "{");
    std::fs::remove_file(bench.file()).unwrap();
    assert_eq!(keeper.standing(), Standing::SignedOut);
    // Opaque tokens: another sign-in is another mark, the same one isn't.
    let mark = |access: &str, refresh: &str| {
        bench.write(&json!({"accessToken": access, "refreshToken": refresh}));
        match keeper.standing() {
            Standing::SignedIn { subject, .. } => subject,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(mark("a", "r"), mark("b", "r"));
    assert_ne!(mark("a", "r"), mark("a", "r2"));
}

fn granted() -> Reply {
    Reply::Status(200, json!({"accessToken": session(1, 0), "refreshToken": "r1", "selectedTeamId": 7}).to_string())
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_sign_in_is_stored() {
    let service = Service::default();
    lock(&service.0).polls = [Reply::Status(404, "Not found".into()), Reply::Network, granted()].into();
    let bench = Bench::new(service);
    let keeper = bench.keeper();
    let attempt = keeper.begin().unwrap();
    assert!(attempt.url.starts_with("https://cursor.com/loginDeepControl?challenge="), "{}", attempt.url);
    assert_eq!(attempt.expires_at, Wall((NOW + 900) * 1000));
    let secret_of_attempt = attempt.secret.verifier.secret();
    assert!(!format!("{attempt:?} {keeper:?}").contains(secret_of_attempt.as_str()));
    keeper.redeem(&attempt).await.unwrap();
    let file = bench.read();
    assert_eq!(
        (&file["accessToken"], &file["refreshToken"], &file["authId"]),
        (&json!(session(1, 0)), &json!("r1"), &json!(ME))
    );
    assert!(matches!(keeper.standing(), Standing::SignedIn { .. }));
    assert_eq!(secret(keeper.access_token().await), session(1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_sign_in_stores_nothing() {
    let service = Service::default();
    lock(&service.0).polls = [granted()].into();
    let bench = Bench::new(service);
    let keeper = bench.keeper();
    let attempt = keeper.begin().unwrap();
    // The answer takes a second; the person cancels before it is in.
    let cancelled = tokio::time::timeout(Duration::from_millis(900), keeper.redeem(&attempt)).await;
    assert!(cancelled.is_err());
    after(60).await;
    assert!(!bench.file().exists());
    assert_eq!(keeper.standing(), Standing::SignedOut);
}

#[tokio::test(start_paused = true)]
async fn a_superseded_sign_in_never_stores() {
    let service = Service::default();
    lock(&service.0).polls = [granted()].into();
    let bench = Bench::new(service);
    let keeper = bench.keeper();
    let attempt = keeper.begin().unwrap();
    let (outcome, ()) = tokio::join!(keeper.redeem(&attempt), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        keeper.begin().unwrap();
    });
    assert!(matches!(outcome, Err(SignInError::Superseded)));
    assert!(!bench.file().exists());
    assert!(matches!(keeper.redeem(&attempt).await, Err(SignInError::Superseded)));

    let attempt = keeper.begin().unwrap();
    let (outcome, ()) = tokio::join!(keeper.redeem(&attempt), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        keeper.sign_out().unwrap();
    });
    assert!(matches!(outcome, Err(SignInError::Superseded)), "a sign-out isn't followed by a sign-in");
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_beats_a_renewal_that_began_before_it() {
    let service = Service::renewing([ok(&session(1, 0), Some("r-old"))]);
    let bench = Bench::signed_in(service, &session(0, 61 * DAY), "r");
    let keeper = bench.keeper();
    let (outcome, ()) = tokio::join!(keeper.access_token(), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.write(&json!({"accessToken": session(8, 0), "refreshToken": "r-new"}));
    });
    assert_eq!(secret(outcome), session(8, 0));
    assert_eq!(bench.read()["refreshToken"], json!("r-new"));
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_sign_in_that_cant_be_stored_at_once_is_stored_a_little_later() {
    let service = Service::default();
    lock(&service.0).polls = [granted()].into();
    let bench = Bench::new(service);
    let keeper = bench.keeper();
    let attempt = keeper.begin().unwrap();
    // Something is in the way of the writers' lock.
    let lock = bench.folder.join("native-auth.write.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let (outcome, ()) = tokio::join!(keeper.redeem(&attempt), async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(!bench.file().exists());
        std::fs::remove_dir(&lock).unwrap();
    });
    outcome.unwrap();
    assert_eq!(bench.read()["refreshToken"], json!("r1"));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_keeper_ends_what_it_began() {
    let bench = Bench::signed_in(Service::renewing([Reply::Never]), &session(0, 61 * DAY), "r");
    let keeper = bench.keeper();
    let _ = tokio::time::timeout(Duration::from_secs(2), keeper.access_token()).await;
    let core = Arc::downgrade(&keeper.core);
    drop(keeper);
    tokio::task::yield_now().await;
    assert!(core.upgrade().is_none(), "the aborted renewal let go of everything");
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_is_in_an_error_or_a_debug_text() {
    let bench = Bench::signed_in(Service::renewing([Reply::Network]), &session(0, 61 * DAY), "the-refresh");
    let keeper = bench.keeper();
    let error = keeper.access_token().await.unwrap_err();
    let text = format!("{error} {error:?} {keeper:?} {:?} {:?}", keeper.standing(), bench.service);
    assert!(!text.contains("the-refresh") && !text.contains(&session(0, 61 * DAY)), "{text}");
}
