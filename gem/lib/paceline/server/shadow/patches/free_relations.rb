# frozen_string_literal: true

require_relative "../cost"
require_relative "memory"
require_relative "stored_rows"

# The part of FreeSql that is about relations: `Review.where(beer: beer).count`, `beer.reviews.exists?`. Building one, its SQL and its log cost more than a
# short query, and one query for all of them costs none of this. So what such a call has returned is kept by its model or owner, its methods and their
# arguments. Relations that lead to nothing else are kept, too. It knows nothing of calls with blocks, and with arguments that are no plain values.
module Paceline
  module Server
    module Shadow
      module Patches
        class FreeRelations
          ASKING = %i[count sum average minimum maximum pluck pick ids exists? any? none? many? one? size empty? first last take find find_by].freeze
          BUILDING = %i[all where rewhere order reorder limit offset select group having joins left_joins left_outer_joins includes preload eager_load
                        references distinct readonly unscope merge].freeze
          # In the thread: within such a call.
          WITHIN = :paceline_within_relation
          private_constant :WITHIN

          # What a call has returned: a value, or a record or several that are made of rows.
          Answer = Struct.new(:value, :rows, :several, :shape) do
            def get
              return FreeRelations.copy(value) unless rows

              several ? rows.records : rows.records.first
            end
          end
          # A relation as it was built, and whether it led to what is kept, to records, and to something else.
          Built = Struct.new(:relation, :asked, :loaded, :spoiled)
          private_constant :Answer, :Built

          class << self
            def install
              classes = [::ActiveRecord::Relation, ::ActiveRecord::Associations::CollectionProxy, ::ActiveRecord::Querying,
                         ::ActiveRecord::Core::ClassMethods, ::ActiveRecord::Scoping::Named::ClassMethods]
              classes.each { |target| lead(target) }
              ::ActiveRecord::Relation.prepend(Loading, Scoping, changing)
            end

            # Text and lists are copied, which an application may change.
            def copy(value)
              case value
              when String then value.dup
              when Array then value.map { |one| copy(one) }
              when Hash then value.to_h { |key, one| [copy(key), copy(one)] }
              else value
              end
            end

            private

            # `where!` and the like.
            def changing
              names = [::ActiveRecord::QueryMethods, ::ActiveRecord::SpawnMethods].flat_map { |all| all.public_instance_methods(false) }
              Module.new do
                names.grep(/!\z/).each do |name|
                  define_method(name) do |*arguments, **options, &block|
                    FreeSql.active.relations.changed(self)
                    super(*arguments, **options, &block)
                  end
                end
              end
            end

            def lead(target)
              asking, building = [ASKING, BUILDING].map { |names| names.select { |name| target.method_defined?(name) } }
              target.prepend(Module.new do
                { asking => :ask, building => :build }.each do |names, through|
                  names.each do |name|
                    define_method(name) do |*arguments, **options, &block|
                      next super(*arguments, **options, &block) if block

                      all = options.empty? ? arguments : [*arguments, options]
                      FreeSql.active.relations.public_send(through, self, name, all) { super(*arguments, **options) }
                    end
                  end
                end
              end)
            end
          end

          # Before ActiveRecord::Relation: `to_a`, `each` and the like.
          module Loading
            private

            def exec_queries(&block)
              FreeSql.active.relations.load(self, block) { super(&block) }
            end
          end

          # What a scope of a model does, which is a block.
          module Scoping
            def _exec_scope(*arguments, &scope)
              FreeSql.active.relations.build(self, scope.object_id, arguments) { super(*arguments, &scope) }
            end
          end

          # `queries`: the FreeSql.
          def initialize(shadow, queries)
            @queries = queries
            @memory = Memory.new(shadow)
            shadow.on_replay { @keys = {}.compare_by_identity }
            @keys = {}.compare_by_identity
          end

          # A query was answered with what is kept; nil: with something else.
          def selected(kept)
            @selected&.push(kept)
          end

          # It is not what its calls say any more.
          def changed(relation)
            key = @keys.delete(relation)
            each_built(key) { |built| built.spoiled = true } if key
          end

          # What is kept of a call, or what the block returns.
          def ask(receiver, name, arguments, &block)
            return yield if Thread.current[WITHIN]

            answer(receiver, *Cost.aside { found(key(receiver, name, arguments)) }, &block)
          end

          # The records of a relation. `each_record`: what ActiveRecord does with each of them, or nil.
          def load(relation, each_record, &block)
            return yield if Thread.current[WITHIN]

            key, kept = Cost.aside { found((key(relation, :load, []) if bare?(relation))) }
            spoil(@keys[relation]) unless key
            records = answer(relation, key, kept, &block)
            return records unless @given

            records.each(&each_record) if each_record
            records.freeze
          end

          # A relation.
          def build(receiver, name, arguments, &block)
            return yield if Thread.current[WITHIN]

            key, relation = Cost.aside { built_before(receiver, name, arguments) }
            relation ||= within(&block)
            return relation unless key && relation.is_a?(::ActiveRecord::Relation)

            @memory[key] ||= Built.new(relation.clone, false, false, false) if @memory.recording?
            @keys[relation] = key
            relation
          end

          private

          # Of a call: its key, and the relation that it has built before.
          def built_before(receiver, name, arguments)
            key = key(receiver, name, arguments) or return
            built = @memory[key]
            [key, (again(built, receiver) if !@memory.recording? && built&.asked && !built.spoiled)]
          end

          def answer(receiver, key, kept = nil, value = nil, &block)
            @given = !kept.nil?
            return kept.rows ? give(kept, receiver) : value if @given

            @selected = []
            value = within(&block)
            @given = false
            keep(key, receiver, value, @selected) if key && @memory.recording?
            value
          ensure
            @selected = nil
          end

          # The key, what is kept for it and is to be given, and its value, unless that is made of rows: records are made also where all of them are loaded at once.
          def found(key)
            kept = @memory[key] if key && !@memory.recording?
            return [key] unless kept && !@queries.made?(kept.shape)

            [key, kept, (kept.get unless kept.rows)]
          end

          def give(kept, receiver)
            value = kept.get
            association = receiver.proxy_association if receiver.respond_to?(:proxy_association)
            Array(value).each { |record| association.set_inverse_instance(record) } if association
            value
          end

          # One that holds no records stays as it is. That of an association belongs to the owner of now.
          def again(built, receiver)
            association = receiver.proxy_association if receiver.respond_to?(:proxy_association)
            return built.relation unless built.loaded || association

            built.relation.clone.tap { |cloned| cloned.instance_variable_set(:@association, association) if association }
          end

          def keep(key, receiver, value, selected)
            return if selected.empty?

            stored = selected.first if selected.size == 1
            found = stored && answer_of(receiver, value, stored)
            found ? mark(key[0], loaded: key[1] == :load) : spoil(key[0])
            @memory[key] = found if found
          end

          def answer_of(receiver, value, stored)
            return Answer.new(FreeRelations.copy(value), nil, false, stored.shape) if plain?(value)

            records = Array(value)
            klass = receiver.is_a?(Class) ? receiver : receiver.klass
            rows = StoredRows.of(klass, stored.result, stored.shape)
            return unless rows && rows.size == records.size && records.all?(::ActiveRecord::Base)

            Answer.new(nil, rows, value.is_a?(Array), stored.shape)
          end

          # By what it is determined; nil: by something else, too.
          def key(receiver, name, arguments)
            root = root(receiver)
            [root, name, arguments.map { |one| named(one) }] if root && arguments.all? { |one| plain?(one) || one.is_a?(::ActiveRecord::Base) }
          end

          def root(receiver)
            case receiver
            when Class then [receiver] unless receiver.current_scope
            when ::ActiveRecord::Associations::CollectionProxy
              association = receiver.proxy_association
              [association.owner.class, association.owner.id, association.reflection.name] unless association.owner.new_record?
            else @keys[receiver]
            end
          end

          def named(argument)
            argument.is_a?(::ActiveRecord::Base) ? [argument.class, argument.id] : argument
          end

          def plain?(value)
            case value
            when nil, true, false, Numeric, String, Symbol, Time, Date then true
            when Range then plain?(value.begin) && plain?(value.end)
            when Array then value.all? { |one| plain?(one) }
            when Hash then value.all? { |key, one| plain?(key) && (plain?(one) || one.is_a?(::ActiveRecord::Base)) }
            else false
            end
          end

          # Nothing is done with the records but to make them.
          def bare?(relation)
            return false if relation.readonly_value || relation.strict_loading_value || relation.lock_value

            [relation.includes_values, relation.preload_values, relation.eager_load_values].all?(&:empty?)
          end

          def mark(key, loaded:)
            each_built(key) do |built|
              built.asked = true
              built.loaded ||= loaded
            end
          end

          def spoil(key)
            each_built(key) { |built| built.spoiled = true } if key && @memory.recording?
          end

          # The relation, and those that it was made of.
          def each_built(key)
            while (built = @memory[key]).is_a?(Built)
              yield built
              key = key[0]
            end
          end

          def within
            Thread.current[WITHIN] = true
            yield
          ensure
            Thread.current[WITHIN] = nil
          end
        end
      end
    end
  end
end
