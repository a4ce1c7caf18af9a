# oidc-provider in a process of its own, for one site. It asserts nothing itself.
require "json"
require "net/http"

class OpenidProvider
  FOLDER = File.expand_path("../oidc", __dir__)

  attr_reader :issuer

  def self.missing = File.directory?(File.join(FOLDER, "node_modules")) ? [] : ["oidc-provider (npm)"]

  # `trust`: a file of the authority that the sites' certificates are signed by.
  def initialize(trust: nil, env: {}, **options)
    input, @input = IO.pipe
    output, said = IO.pipe
    @pid = Process.spawn(env.merge("NODE_EXTRA_CA_CERTS" => trust), "node", "provider.mjs", JSON.generate(options), chdir: FOLDER, in: input, out: said, err: File::NULL)
    [input, said].each(&:close)
    @issuer = output.gets&.chomp or raise "the provider does not start: run `node provider.mjs` in #{FOLDER}"
  end

  # Its clients are at this address from now on.
  def site=(url)
    test("site/#{[url].pack("m0").tr("+/", "-_").delete("=")}")
  end

  # rotate, forge/KIND, away, no-userinfo, no-tokens, back: see provider.mjs.
  def test(what)
    answer = Net::HTTP.post(URI("#{issuer}/test/#{what}"), "")
    raise "#{what}: #{answer.body}" unless answer.body == "done"
  end

  # How often it was asked for tokens: by logins and refreshes.
  def count(what) = Integer(Net::HTTP.get(URI("#{issuer}/test-count/#{what}")))

  def stop
    @input.close
    Process.wait(@pid)
  end
end
