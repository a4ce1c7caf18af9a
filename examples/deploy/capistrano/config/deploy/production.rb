server "shop.example.org", user: "deploy", roles: %w[app web db]
