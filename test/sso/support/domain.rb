# One domain of Active Directory (Samba) for all scenarios of a run, with people, groups and the site's service account. It asserts nothing itself.
require "minitest/autorun"
require_relative "samba"

module Domain
  WEB = "web.ad.test"

  # It is made once, even if that fails.
  def self.shared
    abort "run test/sso/samba, which gives the domain a network of its own" unless ENV["PACELINE_OWN_NETWORK"] == "1"
    raise @failure if @failure
    @domain ||= Samba.new.tap do |domain|
      Minitest.after_run { domain.remove }
      %w[alice bob carol locked].each { |name| domain.tool("user", "create", name, Samba::PASSWORD, "--mail-address=#{name}@ad.test") }
      domain.tool("user", "disable", "locked")
      { "staff" => "alice", "everybody" => "staff", "web admins" => "bob" }.each do |group, member|
        domain.tool("group", "add", group)
        domain.tool("group", "addmembers", group, member)
      end
      domain.service("HTTP/#{WEB}", "websvc")
      # People sign in by it; her account is still carol.
      domain.change("CN=carol,CN=Users", "userPrincipalName", "c.example@ad.test")
      domain.start
    end
  rescue StandardError => error
    @failure = error
    raise
  end
end
