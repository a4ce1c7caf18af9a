# frozen_string_literal: true

module Paceline
  class PStore
    # Which roots hold a common object, so that they have to be stored together: what is one object in a transaction is one in the next, too,
    # as when the whole table is stored at once.
    module Sharing
      # What is the same by its value: to be one object or two makes no difference.
      PLAIN = [NilClass, TrueClass, FalseClass, Integer, Float, Symbol, Module].freeze
      private_constant :PLAIN

      module_function

      # The names of `values` (a Hash) in groups: those that share something together, the others alone.
      def groups(values)
        return values.keys.map { |name| [name] } if values.size < 2

        group_of = {}
        seen = {}.compare_by_identity
        values.each do |name, value|
          group_of[name] = [name]
          each_object(value) do |object|
            seen.key?(object) ? join(group_of, seen[object], name) : seen[object] = name
          end
        end
        order = values.keys.each_with_index.to_h
        group_of.values.uniq(&:object_id).map { |names| names.sort_by { |name| order[name] } }
      end

      def join(group_of, one, other)
        first, second = group_of[one], group_of[other]
        return if first.equal?(second)

        second.each { |name| group_of[name] = first }
        first.concat(second)
      end

      # Yields each object that can be reached, once: elements, members and instance variables. What a class's own marshal_dump makes of it is
      # not looked into.
      def each_object(value)
        met = {}.compare_by_identity
        open = [value]
        until open.empty?
          object = open.pop
          next if PLAIN.any? { |plain| plain === object } || met.key?(object)

          met[object] = true
          next if object.is_a?(String) && object.frozen? && object.instance_variables.empty?

          yield object
          case object
          when Array then open.concat(object)
          when Hash then object.each { |key, element| open << key << element }
          when Struct then open.concat(object.to_a)
          end
          object.instance_variables.each { |name| open << object.instance_variable_get(name) } if object.respond_to?(:instance_variables)
        end
      end
    end
    private_constant :Sharing
  end
end
