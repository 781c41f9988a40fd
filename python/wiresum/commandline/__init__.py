"""What commands are made of: options, quantities, help, and how they speak."""
