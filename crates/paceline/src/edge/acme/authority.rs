//! Our account with the authority: read from disk, or made and kept there.
//! It never makes an account while another attempt makes one.

use std::{path::PathBuf, time::Duration};

use instant_acme::{Account, AccountBuilder, NewAccount};
use serde_json::{json, Value};
use tokio::{sync::Mutex, time::timeout};

use super::{storage::Storage, trouble::Failure};
use crate::config::AcmeConfig;

/// For the few requests that an account takes.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Authority {
    pub directory: String,
    ca_file: Option<PathBuf>,
    /// As the authority wants it.
    contact: Option<String>,
    account: Mutex<Option<Account>>,
}

impl Authority {
    pub fn new(config: &AcmeConfig) -> Authority {
        Authority {
            directory: config.directory.clone(),
            ca_file: config.ca_file.clone(),
            contact: config.email.as_ref().map(|email| format!("mailto:{email}")),
            account: Mutex::default(),
        }
    }

    pub async fn account(&self, storage: &Storage) -> Result<Account, Failure> {
        let mut known = self.account.lock().await;
        if let Some(account) = known.as_ref() {
            return Ok(account.clone());
        }
        let account = timeout(TIMEOUT, self.open(storage)).await.map_err(|_| Failure::Late)??;
        *known = Some(account.clone());
        Ok(account)
    }

    /// The authority does not know it any more.
    pub async fn forget(&self, storage: &Storage) {
        *self.account.lock().await = None;
        storage.forget_account();
    }

    async fn open(&self, storage: &Storage) -> Result<Account, Failure> {
        let contact: Vec<_> = self.contact.iter().map(String::as_str).collect();
        if let Some(mut kept) = storage.account() {
            if let Ok(credentials) = serde_json::from_value(kept["credentials"].clone()) {
                let account = self.client()?.from_credentials(credentials).await?;
                if kept["contact"] != json!(self.contact) {
                    account.update_contacts(&contact).await?;
                    kept["contact"] = json!(self.contact);
                    keep(storage, &kept)?;
                }
                return Ok(account);
            }
        }
        let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = self.client()?.create(&new, self.directory.clone(), None).await?;
        let credentials = serde_json::to_value(&credentials).map_err(Failure::UnusableAccount)?;
        keep(storage, &json!({ "contact": self.contact, "credentials": credentials }))?;
        Ok(account)
    }

    fn client(&self) -> Result<AccountBuilder, Failure> {
        Ok(match &self.ca_file {
            Some(file) => Account::builder_with_root(file)?,
            None => Account::builder()?,
        })
    }
}

fn keep(storage: &Storage, account: &Value) -> Result<(), Failure> {
    storage.save_account(account).map_err(Failure::AccountNotKept)
}
