//! Servers of PostgreSQL and MariaDB for tests, on loopback, in a folder of their own and by
//! a user without rights. Where they are not installed, tests say so and are left out.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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
                "log_line_prefix=%u|",
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
    #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
    pub(crate) fn start(kind: Kind) -> Option<Self> {
        let needed = match kind {
            Kind::Postgres => ["initdb", "postgres", "psql"],
            Kind::Maria => ["mariadb-install-db", "mariadbd", "mariadb"],
        };
        let programs: Vec<Option<PathBuf>> = needed.iter().map(|name| program(name)).collect();
        let [Some(init), Some(_), Some(_)] = &programs[..] else {
            eprintln!("left out: {needed:?} are not all installed");
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

    /// Its address, as a reader has it.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.kind {
            Kind::Postgres => "postgres",
            Kind::Maria => "mysql",
        };
        format!("{scheme}://reader@127.0.0.1:{}/shop", self.port)
    }

    /// The statements that the reader has sent.
    pub(crate) fn statements(&self) -> Vec<String> {
        match self.kind {
            Kind::Postgres => {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
                let lines = log.lines().filter_map(|line| line.strip_prefix("reader|"));
                let said = lines.filter_map(|line| {
                    line.split_once("statement: ")
                        .or_else(|| line.split_once("execute "))
                });
                said.map(|(_, text)| text.to_owned()).collect()
            }
            Kind::Maria => {
                let log = std::fs::read(self.folder.path().join("statements")).unwrap();
                let log = String::from_utf8_lossy(&log);
                let lines = log.lines().filter_map(|line| {
                    let line = line.split_once("\tExecute\t").or_else(|| {
                        line.split_once(" Execute\t")
                            .or_else(|| line.split_once(" Query\t"))
                    });
                    line.map(|(_, text)| text.to_owned())
                });
                lines.collect()
            }
        }
    }
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
