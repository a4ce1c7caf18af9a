# frozen_string_literal: true

# The manifests of examples/deploy/kubernetes and those in docs/kubernetes.md: Kubernetes accepts them, and their parts fit each other.
require "minitest/autorun"
require "yaml"
require_relative "schema"

class ManifestsTest < Minitest::Test
  CHECKOUT = File.expand_path("../..", __dir__)
  FILES = Dir[File.join(CHECKOUT, "examples/deploy/kubernetes/*.yaml")].sort
  PAGE = File.join(CHECKOUT, "docs/kubernetes.md")

  def objects(text) = YAML.load_stream(text)

  def all = FILES.to_h { |file| [File.basename(file), objects(File.read(file))] }

  def of_kind(name, kind) = all.fetch(name).select { |object| object["kind"] == kind }

  def problems(object) = KubernetesSchema.new.problems(object)

  def test_kubernetes_accepts_all_manifests
    assert_equal %w[balancer.yaml shop.yaml], all.keys
    all.each { |name, found| found.each { |object| assert_empty problems(object), "#{name}: #{object["kind"]}" } }
  end

  def test_what_the_page_shows_is_in_the_manifests
    blocks = File.read(PAGE).scan(/^```yaml\n(.*?)^```/m).flatten
    refute_empty blocks
    lines = FILES.flat_map { |file| File.readlines(file, chomp: true) }.map(&:strip)
    blocks.each { |block| assert_empty block.lines(chomp: true).map(&:strip).reject(&:empty?) - lines }
  end

  def test_the_parts_fit_each_other
    all.each_key do |name|
      of_kind(name, "Deployment").each do |deployment|
        pod = deployment["spec"]["template"]
        labels, spec = pod["metadata"]["labels"], pod["spec"]
        selectors = [deployment, *of_kind(name, "PodDisruptionBudget")].map { |object| object["spec"]["selector"]["matchLabels"] }
        selectors += of_kind(name, "Service").map { |object| object["spec"]["selector"] }
        selectors.each { |selector| assert_operator selector, :<=, labels, name }

        container, = spec["containers"]
        ports = container["ports"].to_h { |port| [port["name"], port["containerPort"]] }
        used = of_kind(name, "Service").flat_map { |object| object["spec"]["ports"].map { |port| port["targetPort"] } }
        used += %w[startupProbe readinessProbe livenessProbe].filter_map { |probe| container.dig(probe, "httpGet", "port") }
        assert_empty used - ports.keys, name
        assert_empty container["volumeMounts"].map { |mount| mount["name"] } - spec["volumes"].map { |volume| volume["name"] }, name

        settings = of_kind(name, "ConfigMap").first["data"]["paceline.toml"]
        assert_includes settings, %(bind = "tcp://0.0.0.0:#{ports["http"]}")
        assert_includes settings, %(control_url = "tcp://0.0.0.0:#{ports["control"]}")
        ending = Integer(settings[/^shutdown_timeout = "(\d+)s"/, 1]) + container["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert_operator spec["terminationGracePeriodSeconds"], :>=, ending + 5, "#{name}: it is killed before it has ended by itself"
      end
    end
  end

  def test_the_balancer_knows_the_pods_by_the_headless_service
    service = of_kind("shop.yaml", "Service").find { |object| object["spec"]["clusterIP"] == "None" }
    port = service["spec"]["ports"].first["port"]
    settings = of_kind("balancer.yaml", "ConfigMap").first["data"]["paceline.toml"]
    assert_includes settings, %(upstream = "dns:#{service["metadata"]["name"]}:#{port}")
  end

  def test_mistakes_are_found
    budget = -> { Marshal.load(Marshal.dump(of_kind("shop.yaml", "PodDisruptionBudget").first)) }
    deployment = -> { Marshal.load(Marshal.dump(of_kind("shop.yaml", "Deployment").first)) }
    container = ->(object) { object["spec"]["template"]["spec"]["containers"].first }
    {
      "PodDisruptionBudget.spec has no field maxUnavailble" => budget.call.tap { |one| one["spec"]["maxUnavailble"] = 1 },
      "PodDisruptionBudget.spec.maxUnavailable is [1]" => budget.call.tap { |one| one["spec"]["maxUnavailable"] = [1] },
      "PodDisruptionBudget.apiVersion is \"policy/v1beta1\", not policy/v1" => budget.call.tap { |one| one["apiVersion"] = "policy/v1beta1" },
      "Deployment.spec lacks selector" => deployment.call.tap { |one| one["spec"].delete("selector") },
      "Deployment.spec.template.spec.containers[0].readinessProbe.httpGet lacks port" => deployment.call.tap { |one| container[one]["readinessProbe"]["httpGet"].delete("port") },
      "Deployment.spec.template.spec.containers[0].livenessProbe.periodSeconds is \"10\", not integer or null" => deployment.call.tap { |one| container[one]["livenessProbe"]["periodSeconds"] = "10" },
      "Deployment.spec.template.spec.containers[0] has no field livenesProbe" => deployment.call.tap { |one| container[one]["livenesProbe"] = {} },
    }.each { |problem, object| assert_equal [problem], problems(object) }
    assert_equal ["kind \"Depolyment\" is not in schema.json"], problems({ "kind" => "Depolyment" })
  end
end
