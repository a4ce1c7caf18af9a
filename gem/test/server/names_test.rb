# frozen_string_literal: true

# A file of lib/paceline/server defines the constant of Paceline::Server that its name says, and no other.
require "minitest/autorun"
require "ripper"

class NamesTest < Minitest::Test
  FILES = Dir[File.expand_path("../../lib/paceline/server/*.rb", __dir__)].sort

  def test_each_file_defines_what_it_is_named_after
    assert_operator FILES.size, :>, 25, "the server's files are not where this test looks"
    FILES.each do |file|
      named = File.basename(file, ".rb").delete("_")
      assert_equal [named], constants(File.read(file)).map(&:downcase), file
    end
  end

  def test_constants_are_found
    assert_equal %w[A B C], constants("module Paceline\n  module Server\n    class A < File; class X; end; end\n    module B; end\n    C = Struct.new(:d)\n  end\nend\n")
    assert_equal %w[Paceline::A], constants("module Paceline\n  class A; end\nend\n"), "beside Paceline::Server"
  end

  private

  # What a text defines in Paceline::Server; in full what it defines elsewhere.
  def constants(text)
    found = []
    collect(Ripper.sexp(text) || flunk("not Ruby"), [], found)
    found.map { |name| name.delete_prefix("Paceline::Server::") }
  end

  def collect(node, within, found)
    return unless node.is_a?(Array)

    case node
    in [:module | :class => kind, [:const_ref, [:@const, name, _]], *rest]
      path = [*within, name]
      return found << path.join("::") unless [%w[Paceline], %w[Paceline Server]].include?(path)
      rest.each { |child| collect(child, path, found) }
    in [:assign, [:var_field, [:@const, name, _]], _] then found << [*within, name].join("::")
    else node.each { |child| collect(child, within, found) }
    end
  end
end
