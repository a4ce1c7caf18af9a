# frozen_string_literal: true

require_relative "application"
AheadApplication.initialize!
AheadOfRails.page = PagesController.render(:show, layout: false, locals: { feed: Documents.feed }).to_str if AHEAD == "middleware"
run AheadApplication
