# One OpenLDAP server for all scenarios of a run, and `basic = { ldap = ... }` for it. It asserts nothing itself.
require_relative "front"
require_relative "slapd"

module Ldap
  def self.slapd
    @slapd ||= Slapd.new.start.tap { |slapd| Minitest.after_run { slapd.remove } }
  end

  def slapd = Ldap.slapd

  # The value of `basic`, with the account's password in a file that only its owner may read.
  def ldap_table(more = "")
    file = slapd.file("account-password")
    File.write(file, "#{Slapd::PASSWORD}\n", perm: 0o600)
    "{ ldap = \"#{slapd.tls_url}\", base = \"#{Slapd::BASE}\", ca_file = \"#{slapd.file("authority.pem")}\", " \
      "account = \"cn=admin,#{Slapd::BASE}\", password_file = \"#{file}\"#{more} }"
  end
end
