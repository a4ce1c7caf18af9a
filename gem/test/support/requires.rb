# frozen_string_literal: true

require "ripper"

# What a Ruby file loads, by its text. Loads nothing.
module Requires
  # A path that is computed.
  COMPUTED = "(computed)"

  module_function

  # [method, what, whether it is within a method] of each require, require_relative, load and autoload.
  def in(text)
    found = []
    visit(Ripper.sexp(text) || raise("not Ruby"), false, found)
    found
  end

  def visit(node, within_method, found)
    return unless node.is_a?(Array)

    within_method = true if %i[def defs].include?(node.first)
    method, arguments =
      case node
      in [:command, [:@ident, method, _], arguments] then [method, arguments]
      in [:method_add_arg, [:fcall, [:@ident, method, _]], [:arg_paren, arguments]] then [method, arguments]
      in [:command_call, [:var_ref, [:@const, "Kernel", _]], _, [:@ident, method, _], arguments] then [method, arguments]
      in [:method_add_arg, [:call, [:var_ref, [:@const, "Kernel", _]], _, [:@ident, method, _]], [:arg_paren, arguments]] then [method, arguments]
      else nil
      end
    found << [method, path_in(arguments, method), within_method] if arguments && %w[require require_relative load autoload].include?(method)
    node.each { |child| visit(child, within_method, found) }
  end

  def path_in(arguments, method)
    _, all, = arguments
    case method == "autoload" ? all[1] : all[0]
    in [:string_literal, [:string_content, [:@tstring_content, path, _]]] then path
    else COMPUTED
    end
  end
end
