# frozen_string_literal: true

# A page of a generated application, before anything is woven into it, and the fault that is. Makes text only.
module Bench
  module Generated
    # ROWS: an expression that gives what it lists. PERSONAL: a header keeps it from caches; it greets the visitor in any case. ID: whether its path has one.
    # SESSION: what it does with the visitor's: "read", "write" (which page was seen), nil.
    Page = Struct.new(:word, :action, :rows, :personal, :id, :session, :fault, keyword_init: true) do
      def path = id ? "/#{word}/#{id}" : "/#{word}"
      def route = id ? "/#{word}/:id" : "/#{word}"
      def class_name = Pick.class_name(word)
      def number(given) = id ? "#{given}.to_i" : "17"

      # An expression with the session as HASH: how many pages the visitor has seen.
      def seen(hash)
        session == "write" ? "(#{hash}[\"seen\"] = [*#{hash}[\"seen\"], number].uniq.last(5)).size" : "#{hash}[\"seen\"].to_a.size"
      end
    end

    # A kind's Weave on a page. NUMBER: 1 for the first of the application. FORM: a key of FORMS; "partial" and "view" are of the page's own. WHEN: "before": a
    # filter calls it; else the page's action, or its view.
    Fault = Struct.new(:number, :kind, :weave, :form, :page, :file, :verb, :when, keyword_init: true) do
      # DoctorMeasured's questions.
      def path = page.path
      def paths = [path]
      def measure = kind.measure
      def same_bytes? = kind.same
      def cookies? = false
      def clients = 1

      def name = Pick.class_name(file)
      def facts = { file: file, name: name, verb: verb }
      def method? = FORMS.key?(form)
      def middleware? = form == "middleware"
      def mixed = (FORMS[form].mixed if method?)
      def in_page? = method? && mixed != "view" && self.when != "before" && !middleware?
      def in_view? = method? && mixed == "view"
      def before? = method? && self.when == "before"
      # What is in a gem is the application's where it calls that.
      def call(number) = format(FORMS[form].call, facts.merge(number: number)) + (form == "gem" ? " #!" : "")

      # Whether an advice names this fault. The line is another question.
      def told_by?(advice) = says?(advice) && (everywhere? || advice.about?(path))
      def says?(advice) = middleware? ? of_middleware?(advice) : kind.says.include?(advice.kind)
      # It is named as such, or its line is: there may be another one on all pages.
      def of_middleware?(advice)
        advice.kind == "slow_middleware" ? advice.sentence.to_s.include?(name) : kind.says.include?(advice.kind) && advice.at.to_s.start_with?("#{format(FORMS[form].path, facts)}:")
      end
      def everywhere? = middleware? || kind.group == :settings
    end
  end
end
