class Terms
  FILE = Rails.root.join("config/terms.yml")

  def self.all
    YAML.load_file(FILE)
  end
end
