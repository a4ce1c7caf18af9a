# frozen_string_literal: true

require_relative "../file_copies"
require_relative "../guards/sessions"

# Stores of PStore on copies of their files below the shadow's temporary folder: by Ruby's PStore ("pstore_copy", the control), or by Paceline's ("pstore").
# Subclasses with a format of their own (YAML::Store) work on copies, too, and stay Ruby's. The application's files are read only.
module Paceline
  module Server
    module Shadow
      module Patches
        # The control.
        module PstoreCopy
          # Before the `initialize` of a store: it works on the copy.
          module Copied
            def initialize(file, ...)
              super(PstoreCopy.copies.path(file), ...)
            end
          end

          class << self
            attr_reader :copies

            def apply(_params, shadow)
              store = PstoreCopy.rubys
              @copies = FileCopies.new(File.join(shadow.tmpdir, "pstore"))
              store.prepend(Copied)
              ObjectSpace.each_object(store) { |one| PstoreCopy.move(one) }
            end

            # Ruby's PStore, as the application uses it.
            def rubys
              raise Inapplicable, "the application does not use PStore" unless defined?(::PStore)
              raise Inapplicable, "PStore is Paceline's already" if defined?(::Paceline::PStore) && ::PStore.equal?(::Paceline::PStore)

              ::PStore
            end

            # A store that was made before: it works on the copy from here on.
            def move(store)
              file = store.instance_variable_get(:@filename) and store.instance_variable_set(:@filename, copies.path(file))
            end
          end
        end

        # The trial.
        module Pstore
          # Methods of a store; `dump`, `load` and settings are its own.
          METHODS = %i[[] []= fetch delete keys roots key? root? path commit abort].freeze
          # Of Marshal.
          HEAD = "\x04\x08".b
          private_constant :METHODS, :HEAD

          # Before the `initialize` of Paceline's store.
          module Copied
            def initialize(file, ...)
              super(Pstore.copies.path(file), ...)
            end
          end

          # For a store of Ruby's, also of a subclass: Paceline's does its work.
          module Forwarding
            METHODS.each do |name|
              define_method(name) { |*arguments, &block| @paceline_store.__send__(name, *arguments, &block) }
            end

            # Those that the application reaches within a transaction are its own, with its methods.
            def transaction(read_only = false)
              Guards::Sessions.in_pstore
              @paceline_store.ultra_safe = @ultra_safe
              @paceline_store.transaction(read_only) { yield self }
            end
          end

          # Before the `initialize` of Ruby's.
          module Replaced
            def initialize(file, ...)
              super(Pstore.copies_for(self).path(file), ...)
              Pstore.replace(self)
            end
          end

          class << self
            attr_reader :copies

            def apply(_params, shadow)
              store = PstoreCopy.rubys
              load_paceline
              @copies = FileCopies.new(File.join(shadow.tmpdir, "pstore")) { |copy| import(copy) }
              @plain_copies = FileCopies.new(File.join(shadow.tmpdir, "pstore_plain"))
              @rubys = store
              ::Paceline::PStore.prepend(Copied)
              store.prepend(Replaced)
              ObjectSpace.each_object(store) { |one| take_over(one) }
              ::Paceline::PStore.replace!
            end

            # @api private Files that are taken over, or files as they are.
            def copies_for(store)
              plain?(store) ? @copies : @plain_copies
            end

            # @api private
            def replace(store)
              return unless plain?(store)

              paceline = ::Paceline::PStore.new(store.instance_variable_get(:@filename), store.instance_variable_get(:@thread_safe))
              store.instance_variable_set(:@paceline_store, paceline)
              store.extend(Forwarding)
            end

            private

            def load_paceline
              Patches.load_library("paceline/pstore")
              ::Paceline::Records.needed
            rescue ::Paceline::Records::Error => e
              raise Inapplicable, e.message
            end

            def plain?(store)
              %i[load dump].all? { |name| store.method(name).owner.equal?(@rubys) }
            end

            # As the first transaction that writes does it. What is no file of PStore's stays.
            def import(copy)
              ::Paceline::PStore.new(copy).transaction { nil } if File.binread(copy, HEAD.bytesize) == HEAD
            end

            def take_over(store)
              file = store.instance_variable_get(:@filename) or return
              store.instance_variable_set(:@filename, copies_for(store).path(file))
              replace(store)
            end
          end
        end
      end
    end
  end
end
