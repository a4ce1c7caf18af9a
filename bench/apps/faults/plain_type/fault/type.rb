# What browsers and servers know it as.
TYPE = "application/x-price-list"
