# frozen_string_literal: true

# The application of a seed: about ten pages, and one to three faults that are woven into them. The seed decides everything: the models, names, pages, kinds,
# sizes and places. `fault` and `clean` differ in the cures alone. It answers as a DoctorFault does where that is served and asked about.
require "fileutils"
require "open3"
require "rbconfig"
require_relative "../fault"
require_relative "database"
require_relative "form"
require_relative "kind"
require_relative "page"
require_relative "pick"
require_relative "rails_base"
require_relative "shop"
require_relative "small_base"

module Bench
  module Generated
    class Application
      BASES = { "rails" => RailsBase, "sinatra" => SinatraBase, "rack" => RackBase }.freeze
      PAGES = 10
      # Of a hundred applications so many have one fault, and so many two.
      ONE = 55
      TWO = 30
      # And sessions. What draws them is another sequence of random numbers, so that a seed's faults are the same ones as without.
      WITH_SESSIONS = 50
      SESSIONS = 1 << 32
      # Kinds that a middleware can have, which knows no models and no pages.
      PLAIN = %w[yaml_file json_file csv_file times sort nested_loop digest exceptions deep_copy regexp churn sleep].freeze
      MARK = / *(?:<%#!(\d)%>|#!(\d))$/

      # TEXT whose marks have the fault's number.
      def self.numbered(text, number) = text.gsub(/#!(?=$|%>)/) { "#!#{number}" }

      # What fault NUMBER is in VARIANT of the application: "fault" or "clean". In "cured-2" only fault 2 is cured.
      def self.state(variant, number)
        cured = variant[/\Acured-(\d+)\z/, 1] or return variant
        cured.to_i == number ? "clean" : "fault"
      end

      DATABASES = { "sqlite" => Sqlite, "postgresql" => Postgresql }.freeze

      attr_reader :seed, :base, :shop, :pages, :faults

      # BASE: nil: the seed's own. DATABASE: of Rails and Sinatra.
      def initialize(seed, base = nil, database: "sqlite")
        @seed = seed
        @pick = Pick.new(Random.new(seed))
        chosen = @pick.one(%w[rails rails sinatra rack])
        @base = base || chosen
        @shop = Shop.new(@pick, DATABASES.fetch(database).new)
        @pages = Array.new(PAGES) { page }
        @faults = kinds.each_with_index.map { |kind, i| woven(kind, i + 1, @pages[i]) }
        @pages = @pages.shuffle(random: @pick.random)
        give_sessions(Random.new(seed + SESSIONS))
      end

      def name = "seed-#{seed}"
      def sessions? = pages.any?(&:session)
      def title = "#{base}#{" on #{shop.database.name}" unless shop.database.is_a?(Sqlite) || base == "rack"}#{" with sessions" if sessions?}: #{faults.map { |fault| "#{fault.kind.name} (#{fault.form})" }.join(", ")}"
      def paths = pages.map(&:path)
      def server = "paceline"
      def memory = nil
      def missing = nil

      # {path => text} of VARIANT.
      def files(variant)
        marked(variant).transform_values { |text| text.gsub(MARK, "") }
      end

      # {number of a fault => its right places as "app/models/shop.rb:4"}
      def places
        found = Hash.new { |all, number| all[number] = [] }
        marked("fault").each do |path, text|
          text.each_line.with_index(1) { |line, number| line.match(MARK) { |mark| found[(mark[1] || mark[2]).to_i] << "#{path}:#{number}" } }
        end
        found
      end

      # As DoctorFault: lays VARIANT into TARGET, and prepares it.
      def lay(variant, target, environment = {})
        FileUtils.rm_rf(target)
        files(variant).each do |path, text|
          FileUtils.mkdir_p(File.dirname(File.join(target, path)))
          File.write(File.join(target, path), text)
        end
        DoctorFault::PREPARATION.each { |script| prepare(script, target, environment) if File.exist?(File.join(target, script)) }
        target
      end

      private

      def prepare(script, folder, environment)
        said, status = Open3.capture2e(environment, RbConfig.ruby, script, chdir: folder)
        raise DoctorFault::Failed, "#{name}: #{script} failed: #{said.lines.last(3).join.strip}" unless status.success?
      end

      def page
        with_id = @pick.chance?(50)
        Page.new(word: "#{@pick.noun}s", action: with_id ? "show" : "index", rows: @pick.one(rows), personal: @pick.chance?(50), id: (@pick.number(1..200) if with_id))
      end

      def give_sessions(random)
        return if random.rand(100) >= WITH_SESSIONS

        @pages.each { |page| page.session = [nil, "read", "write"][random.rand(3)] }
      end

      # What healthy pages list.
      def rows
        plain = ["(1..14).map { |i| \"row \#{i * number % 17}\" }", "%w[north south east west].map { |side| \"\#{side} \#{number}\" }"]
        return plain if base == "rack"

        child, title = shop.child, shop.title
        plain.take(1) + ["#{child}.includes(:#{shop.parent_name}).order(:id).limit(12).map { |row| \"\#{row.#{title}} (\#{row.#{shop.parent_name}.name})\" }",
                         "#{child}.order(id: :desc).limit(6).pluck(:#{title})", "[#{child}.find((number % 100) + 1).#{title}]"]
      end

      def kinds
        drawn, all = @pick.number(0..99), Kinds.of(base)
        count = drawn < ONE ? 1 : (drawn < ONE + TWO ? 2 : 3)
        all.shuffle(random: @pick.random).each_with_object([]) do |kind, chosen|
          chosen << kind if chosen.size < count && (kind.group.nil? || chosen.none? { |other| other.group == kind.group })
        end
      end

      def woven(kind, number, page)
        weave = kind.make.call(@pick, shop)
        shop.enlarge(weave.sizes)
        form = form(kind, weave)
        fault = Fault.new(number: number, kind: kind, weave: weave, form: form, page: page, file: form == "helper" ? "#{@pick.name}_helper" : @pick.name, verb: @pick.verb)
        fault.when = @pick.one(%w[page before]) if base != "rack" && fault.method? && fault.mixed != "view" && form != "middleware"
        page.fault = fault
      end

      def form(kind, weave)
        return "view" if weave.view?
        return "partial" if weave.loop? && base == "rails" && @pick.chance?(40)
        return "middleware" if PLAIN.include?(kind.name) && @pick.chance?(15)

        @pick.one(BASES.fetch(base)::FORMS)
      end

      def marked(variant)
        @marked ||= {}
        @marked[variant] ||= BASES.fetch(base).new(self, variant).files.merge(*faults.map { |fault| of_fault(fault, variant) })
      end

      # The files that hold it, and those that it reads.
      def of_fault(fault, whole)
        weave, variant = fault.weave, Application.state(whole, fault.number)
        own = weave.files.to_h
        if fault.method?
          form = FORMS.fetch(fault.form)
          text = form.text(weave.requires.to_a, weave.constants_of(variant), weave.body(variant), fault.facts)
          own = own.merge(BASES.fetch(base).place(format(form.path, fault.facts)) => text)
        elsif fault.form == "partial"
          own = own.merge("app/views/shared/_#{fault.file}.html.erb" => "<li><%= #{weave.row} %></li><%#!%>\n")
        else
          own = own.merge("app/views/shared/_#{weave.partials[:name]}.html.erb" => weave.partials[variant]) if weave.partials
        end
        own.transform_values { |source| Application.numbered(source, fault.number) }
      end
    end
  end
end
