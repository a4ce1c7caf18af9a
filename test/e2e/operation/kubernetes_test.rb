# The settings in the manifests for Kubernetes (examples/deploy/kubernetes), as `paceline check` judges them.
require "open3"
require "yaml"
require_relative "../support/scenario"

class KubernetesTest < Minitest::Test
  include Scenario

  FILES = Dir[File.expand_path("../../../examples/deploy/kubernetes/*.yaml", __dir__)].sort

  def test_the_settings_are_accepted
    assert_equal 2, FILES.size
    FILES.each do |file|
      settings = YAML.load_stream(File.read(file)).find { |object| object["kind"] == "ConfigMap" }["data"]["paceline.toml"]
      files = { "paceline.toml" => settings }
      files["config.ru"] = "run ->(_) { [200, {}, []] }" unless settings.include?("upstream")
      environment = AS_ROOT.merge("PACELINE_CONTROL_TOKEN" => "0123456789abcdef", "RACK_ENV" => "production")
      out, status = Open3.capture2e(environment, BIN, "check", chdir: app(files))
      assert_predicate status, :success?, "#{file}: #{out}"
      refute_match(/warning/i, out, file)
    end
  end
end
