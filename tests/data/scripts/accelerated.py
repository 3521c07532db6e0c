"""An Accelerate loop: the configuration comes from accelerate launch."""

import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.ones(64, 64), batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _epoch in range(1000):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(batch.to(next(model.parameters()).dtype)).float().pow(2).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
