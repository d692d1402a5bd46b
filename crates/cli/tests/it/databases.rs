//! Servers of PostgreSQL and MariaDB for tests, on loopback, in a folder of their own and by
//! a user without rights. Where they are not installed, tests say so and are left out.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) enum Kind {
    Postgres,
    Maria,
}

/// A server with a database `shop`, and a user `reader` who may only read.
pub(crate) struct Server {
    kind: Kind,
    folder: TempDir,
    child: Child,
    pub(crate) port: u16,
}

/// A program of a server, wherever Debian has put it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push(PathBuf::from("/usr/sbin"));
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().flatten();
    folders.extend(versions.map(|entry| entry.path().join("bin")));
    let mut found = folders.into_iter().map(|folder| folder.join(name));
    found.find(|path| path.is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}

/// A command by a user without rights.
fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(program);
    command
}

fn give_away(folder: &Path) {
    if is_root() {
        let given = Command::new("chown")
            .arg("65534:65534")
            .arg(folder)
            .status();
        assert!(given.unwrap().success());
    }
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Starts a server whose data are there.
fn serve(kind: &Kind, folder: &Path, port: u16) -> Child {
    let data = folder.join("data");
    let mut log = File::options();
    let log = log.create(true).append(true).open(folder.join("log"));
    let log = log.unwrap();
    let mut command = match kind {
        Kind::Postgres => {
            let mut command = unprivileged(&program("postgres").unwrap());
            command.arg("-D").arg(&data);
            for setting in [
                "listen_addresses=127.0.0.1",
                "fsync=off",
                "log_statement=all",
                "log_line_prefix=%u|%p|",
                "unix_socket_directories=",
            ] {
                command.args(["-c", setting]);
            }
            command.args(["-p", &port.to_string()]);
            command
        }
        Kind::Maria => {
            let mut command = unprivileged(&program("mariadbd").unwrap());
            command.args([
                "--no-defaults",
                "--bind-address=127.0.0.1",
                "--general-log=1",
            ]);
            command.args(["--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"]);
            // It knows what sessions say of themselves.
            command.arg("--performance-schema=ON");
            for (name, file) in [
                ("datadir", "data"),
                ("socket", "socket"),
                ("pid-file", "pid"),
                ("general-log-file", "statements"),
            ] {
                command.arg(format!("--{name}={}", folder.join(file).display()));
            }
            command.arg(format!("--port={port}"));
            command
        }
    };
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Option<Self> {
        let needed = match kind {
            Kind::Postgres => ["initdb", "postgres", "psql"],
            Kind::Maria => ["mariadb-install-db", "mariadbd", "mariadb"],
        };
        let programs: Vec<Option<PathBuf>> = needed.iter().map(|name| program(name)).collect();
        let [Some(init), Some(_), Some(_)] = &programs[..] else {
            let why = format!("{} are not all installed", needed.join(", "));
            crate::say_skipped("tables of a database server", &why);
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        give_away(folder.path());
        let data = folder.path().join("data");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        match kind {
            Kind::Postgres => {
                let mut init = unprivileged(init);
                init.args(["-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync"]);
                done(init.args(["--locale=C.UTF-8", "-D"]).arg(&data));
            }
            Kind::Maria => {
                let mut init = unprivileged(init);
                init.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
                done(init.arg(format!("--datadir={}", data.display())));
            }
        }
        let child = serve(&kind, folder.path(), port);
        let server = Self {
            kind,
            folder,
            child,
            port,
        };
        server.wait();
        server.prepare();
        Some(server)
    }

    /// Stops it, whatever it is asked just then, and starts it again.
    pub(crate) fn restart(&mut self) {
        let signal = match self.kind {
            Kind::Postgres => "-INT",
            Kind::Maria => "-TERM",
        };
        done(Command::new("kill").args([signal, &self.child.id().to_string()]));
        self.child.wait().unwrap();
        self.child = serve(&self.kind, self.folder.path(), self.port);
        self.wait();
    }

    fn wait(&self) {
        let begun = Instant::now();
        loop {
            let is_there = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
            if is_there
                && self
                    .client("")
                    .arg("select 1")
                    .output()
                    .unwrap()
                    .status
                    .success()
            {
                return;
            }
            let log = std::fs::read_to_string(self.folder.path().join("log"));
            assert!(begun.elapsed() < PATIENCE, "no server: {log:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn prepare(&self) {
        match self.kind {
            Kind::Postgres => {
                done(self.client("").arg("create database shop"));
                self.sql(
                    "create role reader login; \
                     alter default privileges in schema public grant select on tables to reader",
                );
            }
            Kind::Maria => {
                self.sql_in("", "create database shop character set utf8mb4");
                self.sql(
                    "create user reader@'127.0.0.1' identified by 's3cret'; \
                     grant select on shop.* to reader@'127.0.0.1'",
                );
            }
        }
    }

    fn client(&self, database: &str) -> Command {
        let port = self.port.to_string();
        match self.kind {
            Kind::Postgres => {
                let mut command = Command::new(program("psql").unwrap());
                let database = if database.is_empty() {
                    "postgres"
                } else {
                    database
                };
                command.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-qAtX"]);
                command.args(["-v", "ON_ERROR_STOP=1", "-d", database, "-c"]);
                command
            }
            Kind::Maria => {
                let mut command = Command::new(program("mariadb").unwrap());
                command.args([
                    "--no-defaults",
                    "-h",
                    "127.0.0.1",
                    "-P",
                    &port,
                    "-u",
                    "root",
                ]);
                command.args(["--batch", "--raw", "-N", "--default-character-set=utf8mb4"]);
                if !database.is_empty() {
                    command.args(["-D", database]);
                }
                command.arg("-e");
                command
            }
        }
    }

    fn sql_in(&self, database: &str, text: &str) -> String {
        done(self.client(database).arg(text))
    }

    /// Says something to the database as its owner.
    #[track_caller]
    pub(crate) fn sql(&self, text: &str) -> String {
        self.sql_in("shop", text)
    }

    /// The same, by a process that may take its time.
    pub(crate) fn begin(&self, text: &str) -> Child {
        let mut client = self.client("shop");
        client.arg(text).stdout(Stdio::null()).spawn().unwrap()
    }

    /// Its address, as a reader has it.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.kind {
            Kind::Postgres => "postgres",
            Kind::Maria => "mysql",
        };
        format!("{scheme}://reader@127.0.0.1:{}/shop", self.port)
    }

    /// From now on the reader of PostgreSQL needs the password that it has elsewhere.
    pub(crate) fn ask_for_password(&self) {
        self.sql("alter role reader password 's3cret'");
        let rules = self.folder.path().join("data/pg_hba.conf");
        let others = std::fs::read_to_string(&rules).unwrap();
        let own = "host all reader 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(&rules, format!("{own}{others}")).unwrap();
        self.sql("select pg_reload_conf()");
    }

    /// What the reader has sent is only read, and there was never more than one statement at a
    /// time: a session begins when the one before has said its last.
    #[track_caller]
    pub(crate) fn assert_only_read_one_by_one(&self) {
        let said = self.said();
        assert!(said.len() > 20, "{said:?}");
        let reads = match self.kind {
            Kind::Postgres => &[
                "select ",
                "with springtide_seen as ",
                "explain (format json) select ",
            ][..],
            Kind::Maria => &[
                "select ",
                "(select ",
                "set session transaction read only",
                "set session max_statement_time = ",
            ],
        };
        let mut sessions: Vec<&str> = Vec::new();
        for (session, text) in &said {
            let text = text.to_lowercase();
            let is_read = reads.iter().any(|words| text.starts_with(words));
            let writes = [
                " into ",
                " for update",
                " for share",
                ";",
                "nextval",
                "get_lock",
            ];
            let writes = writes.iter().any(|words| text.contains(words));
            assert!(is_read && !writes, "{text}");
            if sessions.last() != Some(&&**session) {
                assert!(
                    !sessions.contains(&&**session),
                    "sessions beside each other: {said:?}"
                );
                sessions.push(session);
            }
        }
        if let Kind::Maria = self.kind {
            // Before it says so, nothing is asked of a table.
            let is_word = |(_, text): &&(String, String)| text.ends_with("read only");
            assert_eq!(said.iter().filter(is_word).count(), sessions.len());
        }
    }

    /// The statements that the reader has sent.
    pub(crate) fn statements(&self) -> Vec<String> {
        self.said().into_iter().map(|(_, text)| text).collect()
    }

    /// The same, each with the session that it was sent in.
    fn said(&self) -> Vec<(String, String)> {
        match self.kind {
            Kind::Postgres => {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
                let lines = log.lines().filter_map(|line| line.strip_prefix("reader|"));
                let said = lines.filter_map(|line| {
                    let (session, rest) = line.split_once('|')?;
                    let (_, text) = rest
                        .split_once("LOG:  statement: ")
                        .or_else(|| rest.split_once("LOG:  execute <unnamed>: "))?;
                    Some((session.to_owned(), text.to_owned()))
                });
                said.collect()
            }
            Kind::Maria => {
                let log = std::fs::read(self.folder.path().join("statements")).unwrap();
                let log = String::from_utf8_lossy(&log);
                let mut readers = HashSet::new();
                let lines = log.lines().filter_map(|line| {
                    // A time, if it is another than before; the number of the session, and what
                    // it did.
                    let session = |front: &str| front.split_whitespace().last().map(str::to_owned);
                    if let Some((front, who)) = line.split_once(" Connect\t") {
                        if who.starts_with("reader@") {
                            readers.insert(session(front)?);
                        }
                        return None;
                    }
                    let (front, text) = line
                        .split_once(" Query\t")
                        .or_else(|| line.split_once(" Execute\t"))?;
                    let session = session(front)?;
                    readers
                        .contains(&session)
                        .then(|| (session, text.to_owned()))
                });
                lines.collect()
            }
        }
    }
}

/// A way to a server on which connections may be cut.
pub(crate) struct CutWay {
    pub(crate) port: u16,
    cuts: Arc<Cuts>,
}

#[derive(Default)]
struct Cuts {
    /// So many connections are still to be cut, each after so many bytes from the server.
    n_left: AtomicUsize,
    after: AtomicUsize,
}

impl CutWay {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let cuts = Arc::new(Cuts::default());
        let of_all = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else {
                    continue;
                };
                let (asked, asking) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || forward(asked, asking, None));
                let cuts = Arc::clone(&of_all);
                std::thread::spawn(move || forward(server, client, Some(&cuts)));
            }
        });
        Self { port, cuts }
    }

    /// From now on so many connections are cut, each after so many bytes from the server.
    pub(crate) fn cut(&self, n: usize, after: usize) {
        self.cuts.after.store(after, Ordering::SeqCst);
        self.cuts.n_left.store(n, Ordering::SeqCst);
    }

    /// How many are still to be cut.
    pub(crate) fn n_left(&self) -> usize {
        self.cuts.n_left.load(Ordering::SeqCst)
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, cuts: Option<&Cuts>) {
    let (mut bytes, mut n_bytes) = ([0; 4096], 0);
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        n_bytes += n;
        let is_over = cuts.is_some_and(|cuts| {
            n_bytes > cuts.after.load(Ordering::SeqCst)
                && (cuts.n_left)
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                    .is_ok()
        });
        if is_over || to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Drop for Server {
    fn drop(&mut self) {
        // By its id; it has nothing to keep.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if is_root() {
            // What it wrote is not ours to remove otherwise.
            let _ = std::fs::remove_dir_all(self.folder.path().join("data"));
        }
    }
}
