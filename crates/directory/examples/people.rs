//! Asks a directory, to try settings, and for the scenarios in test/sso.
//!
//!     people URL BASE [ca=FILE] [starttls] [account=NAME:PASSWORD] [as=TEMPLATE] COMMAND...
//!
//! Commands, one after the other, with a line for each answer: `check`, `forget`, `authenticate=NAME:PASSWORD`,
//! `groups=NAME`, `names=SID,SID`, and `pause`, which waits for a line of the input.

use std::{error::Error, time::Duration};

use directory::{Directory, Secret, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (url, base) = arguments.next().zip(arguments.next()).ok_or("URL BASE [options] COMMAND...")?;
    let mut settings = Settings { urls: url.split(',').map(str::to_owned).collect(), base, ..Settings::default() };
    let mut commands = Vec::new();
    for argument in arguments {
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        match name {
            "ca" => settings.ca_file = Some(value.into()),
            "starttls" => settings.starttls = true,
            "as" => settings.person_dn = Some(value.into()),
            "timeout" => settings.timeout = Duration::from_millis(value.parse()?),
            "account" => settings.account = value.split_once(':').map(|(name, word)| (name.into(), secret(word))),
            _ => commands.push((name.to_owned(), value.to_owned())),
        }
    }
    let directory = match Directory::open(settings) {
        Ok(directory) => directory,
        Err(failure) => {
            println!("{failure}");
            return Ok(());
        }
    };
    for (command, value) in commands {
        println!("{}", answer(&directory, &command, &value).await);
    }
    Ok(())
}

fn secret(text: &str) -> Secret {
    Secret::new(text)
}

async fn answer(directory: &Directory, command: &str, value: &str) -> String {
    let answer = match command {
        "check" => directory
            .check()
            .await
            .map(|server| format!("{:?} at {}, account {:?}", server.kind, server.url, server.account)),
        "authenticate" => {
            let (name, password) = value.split_once(':').unwrap_or((value, ""));
            directory.authenticate(name, &secret(password)).await.map(|person| {
                format!("{} <{}>: {}", person.name, person.mail.unwrap_or_default(), person.groups.join(" "))
            })
        }
        "groups" => directory.groups(value).await.map(|groups| groups.join(" ")),
        "names" => {
            let sids: Vec<String> = value.split(',').map(str::to_owned).collect();
            directory.group_names(&sids).await.map(|names| names.join(" "))
        }
        "forget" => {
            directory.forget();
            Ok("forgotten".into())
        }
        "pause" => {
            println!("paused");
            // Nothing else runs here meanwhile.
            Ok(std::io::stdin().lines().next().and_then(Result::ok).unwrap_or_default())
        }
        _ => Ok(format!("no command {command}")),
    };
    answer.unwrap_or_else(|failure| format!("{}{failure}", if failure.is_ours() { "FAILURE " } else { "" }))
}
