# frozen_string_literal: true

# Where a woven method stands: in a model, a plain file below lib/, a helper, a concern, a serializer, a gem in vendor/ or a middleware. Makes text only.
module Bench
  module Generated
    # PATH of the file; OPENING: the lines that it begins with; DEFINITION of the method; CALL: how a page asks for it. In all of them %{file}, %{name} (of the class),
    # %{verb}, %{number}. MIXED: where the module is included: "page", "view", or nil.
    Form = Struct.new(:path, :opening, :definition, :call, :mixed, keyword_init: true) do
      # CONSTANTS and BODY: lines. FACTS: {file:, name:, verb:}.
      def text(requires, constants, body, facts)
        inner = "#{constants}#{"\n" if constants && !constants.empty?}#{more(facts)}#{format(definition, facts)}\n#{indented(body)}end\n"
        head = requires.map { |library| "require \"#{library}\"\n" }.join
        "#{head}#{"\n" unless head.empty?}#{format(opening, facts)}\n#{indented(inner)}end\n"
      end

      private

      def indented(text) = text.gsub(/^(?=.)/, "  ")
      def more(_facts) = ""
    end

    class SerializerForm < Form
      private

      def more(_facts) = "attr_reader :number\n\ndef initialize(number)\n  @number = number\nend\n\n"
    end

    # It gives the page what it has computed in the environment of the request.
    class MiddlewareForm < Form
      private

      def more(facts)
        "def initialize(app)\n  @app = app\nend\n\ndef call(env)\n  env[\"shop.#{facts[:verb]}\"] = #{facts[:verb]}(7)\n  @app.call(env)\nend\n\n"
      end
    end

    FORMS = {
      "model" => Form.new(path: "app/models/%{file}.rb", opening: "class %{name}", definition: "def self.%{verb}(number)", call: "%{name}.%{verb}(%{number})"),
      "lib" => Form.new(path: "lib/%{file}.rb", opening: "module %{name}", definition: "def self.%{verb}(number)", call: "%{name}.%{verb}(%{number})"),
      "gem" => Form.new(path: "vendor/gems/%{file}-1.0.0/lib/%{file}.rb", opening: "module %{name}", definition: "def self.%{verb}(number)", call: "%{name}.%{verb}(%{number})"),
      "helper" => Form.new(path: "app/helpers/%{file}.rb", opening: "module %{name}", definition: "def %{verb}(number)", call: "%{verb}(%{number})", mixed: "view"),
      "concern" => Form.new(path: "app/controllers/concerns/%{file}.rb", opening: "module %{name}", definition: "def %{verb}(number)", call: "%{verb}(%{number})", mixed: "page"),
      "serializer" => SerializerForm.new(path: "app/serializers/%{file}.rb", opening: "class %{name}", definition: "def %{verb}", call: "%{name}.new(%{number}).%{verb}"),
      "middleware" => MiddlewareForm.new(path: "lib/%{file}.rb", opening: "class %{name}", definition: "def %{verb}(number)", call: "request.env[\"shop.%{verb}\"]")
    }.freeze
  end
end
