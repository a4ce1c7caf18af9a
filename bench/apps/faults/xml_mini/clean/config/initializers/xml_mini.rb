ActiveSupport::XmlMini.backend = "Paceline"
