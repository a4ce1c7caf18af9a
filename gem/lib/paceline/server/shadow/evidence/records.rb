# frozen_string_literal: true

require_relative "observer"

# Records that the application has loaded by queries of its own, and which of their columns it has read. Records of associations are not looked at. It holds
# them until the request has ended.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Records < Observer
          # Fewer of one place are not reported.
          LEAST = 20
          # Records of one place whose columns are looked at.
          LOOKED_AT = 2_000
          private_constant :LEAST, :LOOKED_AT

          Loaded = Struct.new(:model, :at, :records, :count, :us)
          private_constant :Loaded

          # Before ActiveRecord::Relation: `to_a`, `each` and the like.
          module Loading
            private

            def exec_queries(&block)
              observer = Records.active or return super
              began = Clock.now
              super.tap { |records| Clock.aside { observer.loaded(klass, records, Clock.now - began) } }
            end
          end

          def initialize(places)
            super
            @loaded = {}
          end

          # @api private
          def loaded(model, records, us)
            at = @places.here
            return if at.empty? || model.name.nil?

            entry = @loaded[[model.name, at]] ||= Loaded.new(model, at, [], 0, 0.0)
            entry.records.concat(records.first(LOOKED_AT - entry.records.size))
            entry.count += records.size
            entry.us += us
          end

          def stop(env)
            super
            @found = @loaded.each_value.select { |entry| entry.count >= LEAST }.map { |entry| described(entry) }
            @loaded.clear
          end

          # `read`: columns that were read of any of them; `columns`: those that were loaded; `unread_bytes`: of the text in the others.
          def to_h
            @found.to_a
          end

          private

          def install
            self.class.hook(::ActiveRecord::Relation, Loading) if defined?(::ActiveRecord::Relation)
          end

          def described(entry)
            read = entry.records.flat_map { |record| record.accessed_fields.to_a }.uniq
            columns = entry.records.first.attribute_names
            texts = entry.records.sum { |record| record.attributes_before_type_cast.sum { |name, value| !read.include?(name) && value.is_a?(String) ? value.bytesize : 0 } }
            unread = texts * entry.count / entry.records.size
            { model: entry.model.name, at: entry.at, count: entry.count, us: entry.us.round, read: read & columns, columns: columns, unread_bytes: unread }
          end
        end
      end
    end
  end
end
