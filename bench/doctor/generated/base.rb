# frozen_string_literal: true

# What the bases of generated applications share: the database, the settings of the server, and the lines that faults bring. Makes text only.
module Bench
  module Generated
    class Base
      # Where a file stands that would be in app/ in Rails.
      def self.place(path) = path

      def initialize(app, variant)
        @app = app
        @variant = variant
        @shop = app.shop
      end

      private

      def pages = @app.pages
      def faults = @app.faults
      def state(fault) = Application.state(@variant, fault.number)

      # What the faults put there.
      def slot(name)
        faults.map { |fault| fault.weave.slots.to_h[name]&.at(state(fault) == "fault" ? 0 : 1) }.compact.join
      end

      def common
        # YJIT: Ruby 3.1 has it, and it makes these pages quicker.
        { "paceline.toml" => "environment = \"production\"\nworkers = 1\nthreads = 3\nyjit = \"on\"\n#{slot(:toml)}" }
      end

      def database
        { "db/structure.sql" => @shop.structure, "db/indexes.sql" => "#{@shop.indexes}#{slot(:indexes)}", "db/prepare.rb" => @shop.preparation }
      end

      def models(parent)
        @shop.models.map { |name, body| ["app/models/#{name.downcase}.rb", "class #{name} < #{parent}\n#{body.gsub(/^(?=.)/, "  ")}end\n"] }.to_h
      end

      # Files of methods that no autoloading finds, or all of them.
      def required(all: false)
        methods = faults.select(&:method?).select { |fault| all || %w[lib gem middleware].include?(fault.form) }
        methods.map { |fault| "require \"\#{APP_ROOT}/#{self.class.place(format(FORMS.fetch(fault.form).path, fault.facts)).delete_suffix(".rb")}\"\n" }.join
      end

      def middleware = faults.select(&:middleware?)
      def mark(text, fault) = Application.numbered(text, fault.number)

      # The lines of a page's view, with ERB.
      def view(page, number)
        fault = page.fault
        text = "<h1>#{page.class_name}</h1>\n<ul>\n<% @rows.each do |row| %><li><%= row %></li>\n<% end %></ul>\n"
        return text unless fault
        return text + mark(of_partial(fault), fault) if fault.form == "partial"
        return text + mark(fault.weave.view, fault) if fault.form == "view"

        text + mark(fault.in_view? ? "<p><%= #{fault.call(number)} %></p>\n" : "<p><%= @found %></p>\n", fault)
      end

      def of_partial(fault)
        list = state(fault) == "fault" ? fault.weave.list : fault.weave.cured_list
        "<ul>\n<%= render partial: \"shared/#{fault.file}\", collection: #{list.gsub("number", "@number")}, as: :row %>\n</ul>\n"
      end
    end
  end
end
