# frozen_string_literal: true

# A whole view of Rails, without a server and a controller: a new view each time, its template found, compiled once and rendered.
require "action_view"
require_relative "page"

module Bench
  class XmlViews
    # `builder` is Rails as it comes, `paceline` with its builder.
    def self.make(name)
      if name == "paceline"
        $LOAD_PATH.unshift(File.expand_path("../../gem/lib", __dir__))
        require "paceline/xml/rails"
      end
      new
    end

    def initialize
      @view = ActionView::Base.with_empty_template_cache
      @paths = ActionView::PathSet.new([XmlPage::VIEWS])
    end

    def work(name)
      assigns = Documents.assigns(name)
      template = "documents/#{name}"
      -> { @view.with_context(ActionView::LookupContext.new(@paths, { formats: [:xml] }), assigns, nil).render(template: template).to_str }
    end
  end
end
