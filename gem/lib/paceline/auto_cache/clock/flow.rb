# frozen_string_literal: true

# Where a value goes within one method, by the instructions of Ruby's virtual machine: from the call that has returned it, on each way that the method may take, on the stack
# and in the method's own variables. An instruction that is not known ends it, and nothing is known then. Runs nothing.
module Paceline
  module AutoCache
    module Clock
      class Flow
        # What an instruction takes from the stack, and what it puts there.
        EFFECTS = {
          **%i[
            putnil putself putobject putobject_INT2FIX_0_ putobject_INT2FIX_1_ putstring putchilledstring putspecialobject duparray duphash
            getinstancevariable getclassvariable getglobal getspecial getblockparam getblockparamproxy opt_getconstant_path opt_getinlinecache
            opt_str_freeze opt_str_uminus definedivar checkkeyword once
          ].to_h { |name| [name, [0, 1]] },
          **%i[pop setinstancevariable setclassvariable setglobal].to_h { |name| [name, [1, 0]] },
          **%i[opt_setinlinecache intern splatarray checktype defined opt_aref_with].to_h { |name| [name, [1, 1]] },
          **%i[getconstant anytostring concatarray checkmatch newrange].to_h { |name| [name, [2, 1]] },
          nop: [0, 0]
        }.freeze
        # As many as an operand says.
        COUNTED = { newarray: 0, newhash: 0, concatstrings: 0, toregexp: 1, adjuststack: 0, opt_newarray_max: 0, opt_newarray_min: 0, opt_newarray_send: 0 }.freeze
        CALLS = %i[
          send opt_send_without_block objtostring opt_plus opt_minus opt_mult opt_div opt_mod opt_eq opt_neq opt_lt opt_le opt_gt opt_ge opt_ltlt opt_and opt_or
          opt_aref opt_aset opt_length opt_size opt_empty_p opt_succ opt_not opt_regexpmatch2 opt_nil_p
        ].freeze
        BRANCHES = %i[branchif branchunless branchnil].freeze
        SPLAT = 1
        BLOCK = 2
        # They see the variables of a method.
        SEEING = %i[binding eval instance_eval class_eval module_eval].freeze
        STEPS = 2000
        private_constant :EFFECTS, :COUNTED, :CALLS, :BRANCHES, :SPLAT, :BLOCK, :SEEING, :STEPS

        # What becomes of the results of all calls of NAME in this line, in the methods (and blocks) that are named so: :compared, :returned, or nil.
        def self.all(iseq, label, line, name)
          found = []
          iseq.each_child { |child| found.concat(all(child, label, line, name)) }
          iseq.base_label == label ? found + new(iseq).results(line, name) : found
        end

        def initialize(iseq)
          parts = iseq.to_a
          @is_method = parts[9] == :method
          @keeps_variables = true
          iseq.each_child { @keeps_variables = false }
          read(parts[13], parts[8])
        end

        def results(line, name)
          calls = @code.each_index.select { |at| @lines[at] == line && call(@code[at])&.fetch(:mid) == name }
          calls.map { |at| result(at + 1) }
        end

        private

        def read(body, line)
          @code, @lines, @labels = [], [], {}
          body.each do |part|
            case part
            when Integer then line = part
            when Symbol then @labels[part] = @code.size
            else
              @code << part
              @lines << line
              @keeps_variables = false if SEEING.include?(call(part)&.fetch(:mid))
            end
          end
        end

        def call(instruction) = (instruction.find { |operand| operand.is_a?(Hash) && operand.key?(:mid) } if CALLS.include?(instruction.first))

        # Follows the value, which lies on the stack at this instruction.
        def result(at)
          results = [:compared]
          todo = [[at, [true], []]]
          seen = {}
          until todo.empty?
            state = todo.pop
            next if seen[state]
            return if seen.size > STEPS

            seen[state] = true
            followed = follow(*state) or return
            todo.concat(followed.reject { |_, stack, variables| stack.none? && variables.empty? })
            results << :returned if @returned
          end
          results.last
        end

        # The next states; nil: something is not known.
        def follow(at, stack, variables)
          @returned = false
          instruction = @code[at] or return
          name, operand, = instruction
          case name
          when *BRANCHES then stack.last ? nil : both(at, operand, stack[0...-1], variables)
          when :jump then [[@labels.fetch(operand), stack, variables]]
          when :opt_getinlinecache then both(at, operand, stack + [false], variables)
          when :leave then leave(stack)
          when :throw then stack.last ? nil : []
          else
            stack = stack.dup
            after = local(name, instruction, stack, variables) || arrange(name, operand, stack, variables) || change(instruction, stack, variables)
            after && [[at + 1, stack, after]]
          end
        end

        def both(at, label, stack, variables) = [[at + 1, stack, variables], [@labels.fetch(label), stack, variables]]

        def leave(stack)
          return [] unless stack.last

          @returned = true
          [] if @is_method
        end

        # A variable of the method. One of the method around a block stays there.
        def local(name, instruction, stack, variables)
          verb, level = name.to_s.match(/\A(getlocal|setlocal)(?:_WC_(\d))?\z/)&.captures
          return unless verb

          slot = instruction[1]
          is_own = (level ? level.to_i : instruction[2]).zero?
          return variables.tap { stack.push(is_own && variables.include?(slot)) } if verb == "getlocal"

          value = stack.pop
          return (variables unless value) unless is_own

          value ? (@keeps_variables && (variables | [slot])) || nil : variables - [slot]
        end

        def arrange(name, count, stack, variables)
          case name
          when :dup then stack.push(stack.last || false)
          when :swap then stack.concat(take(stack, 2).reverse)
          when :dupn then stack.concat(take(stack, count) * 2)
          when :topn then stack.push(take(stack.dup, count + 1).first)
          when :setn
            top = take(stack, count + 1)
            stack.push(top.last, *top.drop(1))
          else return
          end
          variables
        end

        def change(instruction, stack, variables)
          name = instruction.first
          if (call = call(instruction))
            taken = take(stack, call[:orig_argc] + 1 + (call[:flag].anybits?(BLOCK) ? 1 : 0))
            return if taken.any? && !known?(call, taken)

            pushed = 1
          elsif COUNTED.key?(name)
            return if take(stack, instruction[1 + COUNTED[name]]).any? && name != :adjuststack

            pushed = name == :adjuststack ? 0 : 1
          else
            taken, pushed = EFFECTS[name]
            return if taken.nil? || (take(stack, taken).any? && name != :pop)
          end
          pushed.times { stack.push(false) }
          variables
        end

        # What lies below is no concern of the value's.
        def take(stack, count)
          taken = stack.pop(count)
          Array.new(count - taken.size, false) + taken
        end

        # The call calculates with the value, or compares it.
        def known?(call, taken)
          return false if call[:flag].anybits?(SPLAT | BLOCK)

          case call[:mid]
          when *Seconds::CALCULATED, *Seconds::COMPARED, :!= then taken.size == 2
          when *Seconds::ROUNDED, *Seconds::SIGNS.keys then taken.size == 1
          when :between? then taken == [true, false, false]
          else false
          end
        end
      end
    end
  end
end
