# frozen_string_literal: true

require "optparse"
require_relative "../pstore"

module Paceline
  class PStore
    # `paceline pstore`: what can be done with the file of a PStore from the terminal.
    module Command
      USAGE = <<~TEXT
        Usage: paceline pstore import FILE        take over a file of Ruby's PStore; the old one is kept as FILE.bak
               paceline pstore export FILE TO     write a file that Ruby's PStore reads
               paceline pstore check FILE         read all of it, and say what is there
      TEXT
      private_constant :USAGE

      module_function

      # Runs it, and returns the exit status: 0, 1 if it failed, 2 if it was not understood.
      def run(arguments, out: $stdout, err: $stderr)
        trust = false
        parser = OptionParser.new(USAGE) do |options|
          options.separator("")
          options.on("-r", "--require FILE", "What defines the classes of the objects in it (config/environment)") { |file| require((File.exist?(file) || File.exist?("#{file}.rb")) ? File.expand_path(file) : file) }
          options.on("--trust", "Load it although somebody else owns it, or everybody may write to it") { trust = true }
        end
        name, file, *rest = parser.parse(arguments)
        if !%w[import export check].include?(name) || file.nil? || rest.size != (name == "export" ? 1 : 0)
          err.puts(parser.help)
          return 2
        end
        raise Error, "#{file} does not exist" unless File.file?(file)

        out.puts(send(name, file, *rest, trust: trust))
        0
      rescue OptionParser::ParseError => e
        err.puts("paceline: #{e.message}", parser.help)
        2
      rescue StandardError, LoadError => e
        err.puts("paceline: #{e.message}")
        1
      end

      def import(file, trust:)
        return "#{file}: is one of Paceline's already" unless Import.marshal?(file)

        Import.call(file, trust: trust)
        "#{report(file, trust)}; the old file is #{file}.bak"
      end

      def export(file, to, trust:)
        raise Error, "#{to} exists already: delete it, or name another file" if File.exist?(to)

        table = PStore.new(file, trust: trust).transaction(true) { |store| store.roots.to_h { |name| [name, store[name]] } }
        File.open(to, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, 0o600) { |plain| plain.write(Marshal.dump(table)) }
        "#{to}: #{counted(table.size)}"
      end

      def check(file, trust:)
        report(file, trust)
      end

      # Reads all of the file: its structure when it is opened, and each record with its checksum.
      def report(file, trust)
        Records.verify(file) unless Import.marshal?(file)
        broken = []
        count = PStore.new(file, trust: trust).transaction(true) do |store|
          store.roots.each do |name|
            store[name]
          rescue ArgumentError, NameError, TypeError => e # a class that is not there (with Rails a NameError), or is another by now
            broken << "#{name.inspect}: #{e.message[/.*/]}"
          end.size
        end
        ["#{file}: sound, #{counted(count)}, #{(File.size(file) / 1024.0).ceil} KB", *broken.map { |line| "  not loaded: #{line}" }].join("\n")
      end

      def counted(count)
        "#{count} root#{"s" unless count == 1}"
      end
    end
  end
end

exit(Paceline::PStore::Command.run(ARGV)) if $PROGRAM_NAME == __FILE__
