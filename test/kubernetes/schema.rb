# frozen_string_literal: true

# Holds Kubernetes' objects to its own schemas (schema.json), as far as those use JSON schema. It knows no cluster.
require "json"

class KubernetesSchema
  TYPES = { "object" => Hash, "array" => Array, "string" => String, "integer" => Integer, "number" => Numeric, "null" => NilClass }.freeze

  def initialize(file = File.join(__dir__, "schema.json"))
    @told = JSON.parse(File.read(file))
  end

  # What is wrong with an object, a line each.
  def problems(object)
    definition = @told["kinds"][object["kind"]] or return ["kind #{object["kind"].inspect} is not in schema.json"]
    check(object, @told["definitions"].fetch(definition), object["kind"])
  end

  private

  def check(value, schema, at)
    return check(value, @told["definitions"].fetch(schema["$ref"].split("/").last), at) if schema["$ref"]
    return one_of(value, schema["oneOf"], at) if schema["oneOf"]
    return ["#{at} is #{value.inspect}, not #{Array(schema["type"]).join(" or ")}"] unless type?(value, schema["type"])
    return ["#{at} is #{value.inspect}, not #{schema["enum"].compact.join(" or ")}"] if schema["enum"] && !schema["enum"].include?(value)
    case value
    when Hash then fields(value, schema, at)
    when Array then value.each_with_index.flat_map { |one, index| check(one, schema["items"] || {}, "#{at}[#{index}]") }
    else []
    end
  end

  def fields(value, schema, at)
    known, more = schema["properties"] || {}, schema.fetch("additionalProperties", true)
    missing = (schema["required"] || []).reject { |name| value.key?(name) }.map { |name| "#{at} lacks #{name}" }
    missing + value.flat_map do |name, field|
      next check(field, known[name], "#{at}.#{name}") if known[name]
      next ["#{at} has no field #{name}"] if more == false
      more.is_a?(Hash) ? check(field, more, "#{at}.#{name}") : []
    end
  end

  def one_of(value, schemas, at)
    schemas.any? { |schema| check(value, schema, at).empty? } ? [] : ["#{at} is #{value.inspect}"]
  end

  def type?(value, types) = types.nil? || Array(types).any? { |type| type == "boolean" ? [true, false].include?(value) : value.is_a?(TYPES.fetch(type)) }
end
