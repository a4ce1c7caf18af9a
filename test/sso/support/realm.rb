# One KDC for all scenarios of a run, with people and the site's service: each test begins with a keytab and a ticket of alice. It asserts nothing itself.
require_relative "front"
require_relative "kdc"

module Realm
  SERVICE = "HTTP/#{Front::HOST}"

  def self.kdc
    @kdc ||= Kdc.new.tap do |kdc|
      Minitest.after_run { kdc.remove }
      %w[alice bob].each { |name| kdc.person(name) }
      kdc.start
    end
  end

  def setup
    super
    missing = Kdc.missing + Front.programs("curl", "openssl")
    flunk "#{missing.join(", ")} missing: bin/setup test" if missing.any?
    @kdc = Realm.kdc
    FileUtils.rm_f([@kdc.file("cc"), @kdc.file("http.keytab")])
    @keytab = @kdc.service(SERVICE)
    @kdc.sign_in("alice")
  end

  # The site with Kerberos alone.
  def kerberos(more = "", keytab: @keytab, options: "", **rest)
    front(<<~TOML, env: @kdc.env, **rest)
      [[sso]]
      kerberos = { keytab = "#{keytab}"#{", #{options}" unless options.empty?} }
      otherwise = "refuse"
      #{more}
    TOML
  end
end
