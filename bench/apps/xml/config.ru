# frozen_string_literal: true

require_relative "application"
XmlApplication.initialize!
run XmlApplication
