# frozen_string_literal: true

module Paceline
  class PStore
    # Which roots hold a common object, so that they have to be stored together: what is one object in a transaction is one in the next, too,
    # as when the whole table is stored at once.
    module Sharing
      module_function

      # The names of `values` (a Hash) in groups: those that share something together, the others alone.
      def groups(values)
        return values.keys.map { |name| [name] } if values.size < 2

        names = values.keys
        group_of = {}
        # Objects, and the number of the root in which they were met first.
        met = {}.compare_by_identity
        names.each_with_index do |name, index|
          group_of[name] = [name]
          visit(values[name], index, met) { |other| join(group_of, names[other], name) }
        end
        order = names.each_with_index.to_h
        all = {}.compare_by_identity
        group_of.each_value { |group| all[group] ||= group.size == 1 ? group : group.sort_by { |name| order[name] } }
        all.values
      end

      def join(group_of, one, other)
        first, second = group_of[one], group_of[other]
        return if first.equal?(second)

        second.each { |name| group_of[name] = first }
        first.concat(second)
      end

      # Goes to each object that can be reached: elements, members and instance variables. Yields the number of the other root in which one was
      # met, whose own objects then are known. What a class's own marshal_dump makes of an object is not looked into.
      def visit(value, index, met)
        open = [value]
        until open.empty?
          object = open.pop
          # What is the same by its value: to be one object or two makes no difference.
          case object
          when String then next if object.frozen? && object.instance_variables.empty?
          when nil, true, false, Integer, Float, Symbol, Module then next
          end
          if (first = met[object])
            yield first unless first == index
            next
          end

          met[object] = index
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
